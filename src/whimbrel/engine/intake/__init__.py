"""Reads subscriptions: checks texts against limits and parses them on all cores."""
