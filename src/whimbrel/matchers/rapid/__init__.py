"""RAPIDMatch and Modified RAPIDMatch: forests of trees over binary properties."""
