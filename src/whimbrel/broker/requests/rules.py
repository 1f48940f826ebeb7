"""The rules of tokens, by the names that the broker's modules know them by."""

from whimbrel.model.rules import Rules, allows, allows_text, constrain

__all__ = ["Rules", "allows", "allows_text", "constrain"]
