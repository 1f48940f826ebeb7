"""The deterministic tree of Gough and Smith: its matcher and its compiled graph."""

from whimbrel.matchers.gough.gough import Gough

__all__ = ["Gough"]
