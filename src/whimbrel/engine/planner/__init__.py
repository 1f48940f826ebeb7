"""Under which access keys conjunctions are filed, and how those lie in a segment's arrays."""
