"""What the broker knows besides the log: subscriptions, cursors, tokens, dead letters."""

from whimbrel.broker.store.protocol import Cursor, DeadLetter, Store, StoredSubscription, Token
from whimbrel.broker.store.sqlite import SqliteStore

__all__ = ["Cursor", "DeadLetter", "SqliteStore", "Store", "StoredSubscription", "Token"]
