"""What the broker knows besides the log: subscriptions, cursors, tokens, dead letters, publications, webhooks."""

from whimbrel.broker.store.cursor import Cursor
from whimbrel.broker.store.protocol import DeadLetter, Store, StoredPublication, StoredSubscription, Token
from whimbrel.broker.store.sqlite import SqliteStore
from whimbrel.broker.store.webhook_records import (
    Attempt,
    UndeliveredMessage,
    WebhookChanges,
    WebhookState,
    WebhookStore,
)

__all__ = [
    "Attempt",
    "Cursor",
    "DeadLetter",
    "SqliteStore",
    "Store",
    "StoredPublication",
    "StoredSubscription",
    "Token",
    "UndeliveredMessage",
    "WebhookChanges",
    "WebhookState",
    "WebhookStore",
]
