"""What the broker knows besides the log: subscriptions, cursors, tokens, dead letters, publications, webhooks.

sqlite                      the store in one SQLite file; the other modules are its parts:
rows                        what the tables hold, as records
matching                    versions of subscriptions with their ranges, and how far events are matched
publications, peer_links, webhooks   what their names say
tables, formats             the tables, as steps from one format of the file to the next
cursor                      places behind a message, as text and in their order
"""

from whimbrel.broker.store.cursor import Cursor
from whimbrel.broker.store.rows import (
    Attempt,
    DeadLetter,
    StoredPublication,
    StoredSubscription,
    Token,
    UndeliveredMessage,
    WebhookChanges,
    WebhookState,
)
from whimbrel.broker.store.sqlite import Store
from whimbrel.broker.store.webhooks import WebhookTables

__all__ = [
    "Attempt",
    "Cursor",
    "DeadLetter",
    "Store",
    "StoredPublication",
    "StoredSubscription",
    "Token",
    "UndeliveredMessage",
    "WebhookChanges",
    "WebhookState",
    "WebhookTables",
]
