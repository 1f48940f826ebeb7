"""The stage that checks events against a schema, and keeps invalid ones with all reasons."""
