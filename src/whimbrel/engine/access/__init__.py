"""Access paths: how an event finds the conjunctions that it may match, one package for each access key."""
