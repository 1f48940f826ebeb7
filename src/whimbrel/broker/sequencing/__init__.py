"""Events and changes in one order: groups, matching, offsets."""
