"""The live page: who is logged in, what the broker does now, and the files that a browser loads."""
