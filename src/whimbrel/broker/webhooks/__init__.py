"""Webhooks: messages that the broker sends to the sinks of subscriptions, in a thread of their own."""
