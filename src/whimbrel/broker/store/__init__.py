"""What the broker knows besides the log: subscriptions, cursors, tokens, dead letters, publications, webhooks.

protocol, webhook_records   the roles `Store` and `WebhookStore`, and the records that they hold
sqlite                      the store in one SQLite file; the other modules are its parts:
matching                    versions of subscriptions with their ranges, and how far events are matched
publications, schema, peer_links, webhooks   what their names say
tables, formats             the tables, as steps from one format of the file to the next
cursor                      places behind a message, as text and in their order
"""

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
