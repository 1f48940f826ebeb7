"""Ids of subscriptions, and the way from an id to its row and back."""
