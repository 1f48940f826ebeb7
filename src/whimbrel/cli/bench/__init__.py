"""Commands that measure this installation."""
