"""The web shop for a broker: its subscriptions over `data.`, and a trickle of its events."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import cycle, islice

from whimbrel.client import Client, ClientError
from whimbrel.lab.web_shop import TIMESTAMPS, sample_events, sample_subscriptions
from whimbrel.model.expression import And, CompareAttributes, Constant, Expression, Not, Or
from whimbrel.model.filter import Filter

BROKER_TIMESTAMPS = [f"data.{name}" for name in TIMESTAMPS]
"""The attributes that a broker of the sample must read as timestamps."""
PER_SECOND = 5
COMPILE_SECONDS = 300.0


def under_data(expression: Expression) -> Expression:
    """The same expression over the payload of CloudEvents.

    >>> str(Filter(under_data(Filter.parse("price < 5 AND NOT (color = 'red')").expression)))
    "data.color != 'red' AND data.price < 5"
    """
    if isinstance(expression, And | Or):
        return replace(expression, terms=tuple(map(under_data, expression.terms)))
    if isinstance(expression, Not):
        return Not(under_data(expression.term))
    if isinstance(expression, CompareAttributes):
        return replace(expression, left=f"data.{expression.left}", right=f"data.{expression.right}")
    return (
        expression
        if isinstance(expression, Constant)
        else replace(expression, attribute=f"data.{expression.attribute}")
    )


def import_sample(client: Client) -> int:
    """Create the sample's subscriptions, and return how many there are. Those that are there already stay."""
    found = [
        {"id": str(id), "filter": str(Filter(under_data(Filter.parse(text).expression)))}
        for id, text in sample_subscriptions()
    ]
    client.import_many(found)
    return len(found)


def trickle(url: str, token: str | None, stop: threading.Event) -> None:
    """Import the sample and publish its events, over and over, a few a second, until told to stop."""
    # The first import after an install waits for kernels that are compiled.
    with Client(url, token, source="web-shop", timeout=COMPILE_SECONDS) as client:
        try:
            import_sample(client)
            events = cycle(sample_events())
            while not stop.wait(1 / PER_SECOND):
                client.publish(list(islice(events, 1)))
        except ClientError:
            if not stop.is_set():
                raise
