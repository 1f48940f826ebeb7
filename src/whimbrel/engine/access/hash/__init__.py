"""Hash keys: up to three items of a conjunction, or the presence of an attribute, looked up in one hash table."""
