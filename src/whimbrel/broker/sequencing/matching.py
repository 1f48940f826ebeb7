"""Matching of a group of events, by the names that the broker's modules know it by."""

from whimbrel.log.matched_numbers import MatchedNumbers, match_events, only

__all__ = ["MatchedNumbers", "match_events", "only"]
