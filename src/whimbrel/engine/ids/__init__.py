"""Ids of subscriptions: from an id to its row, and back."""
