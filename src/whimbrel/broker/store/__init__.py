"""What the broker knows besides the log: subscriptions, cursors, tokens, dead letters, publications."""

from whimbrel.broker.store.protocol import Cursor, DeadLetter, Store, StoredPublication, StoredSubscription, Token
from whimbrel.broker.store.sqlite import SqliteStore

__all__ = ["Cursor", "DeadLetter", "SqliteStore", "Store", "StoredPublication", "StoredSubscription", "Token"]
