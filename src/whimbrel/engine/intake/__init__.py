"""Subscriptions on their way in: texts read, checked against limits, and parsed on all cores."""
