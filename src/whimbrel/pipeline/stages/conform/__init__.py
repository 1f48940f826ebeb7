"""The stage that checks events against a schema."""
