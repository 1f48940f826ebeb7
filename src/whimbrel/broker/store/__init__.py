"""What the broker knows besides the log: subscriptions, cursors, tokens, dead letters, publications, webhooks.

sqlite                      the store in one SQLite file; the other modules are its parts:
rows                        what the tables hold, as records; cursors, the places behind a message
matching                    versions of subscriptions with their ranges, and how far events are matched
publications, peer_links, webhooks   what their names say
formats                     the tables, as steps from one format of the file to the next
"""

from whimbrel.broker.store.rows import (
    Attempt,
    Cursor,
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
