"""A seeded model of a search log, for the figures that the paper draws from one which is not public any more.

Words follow Zipf's law. A user asks for phrases of one to four words, and often for a phrase again with one more word,
so that phrases contain each other. A page contains the text of a query with a probability that falls with its words.
"""

from __future__ import annotations

import numpy as np

from whimbrel.lab.workloads.draws import Draws, zipf
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter

WORDS = 20_000
EXPONENT = 1.0
AGAIN = 0.4
"""The share of queries that extend an earlier one of the same user."""
QUOTED = 3
"""Queries whose text a page contains, in the mean."""
LABEL = "The search log of the paper is not public any more: phrases are drawn from a seeded model."


def queries(count: int, users: int) -> list[str]:
    """`count` different queries of `users` users."""
    draws = Draws(0, 3)
    words = zipf(WORDS, EXPONENT)
    mine: list[list[str]] = [[] for _ in range(users)]
    found: dict[str, None] = {}
    while len(found) < count:
        own = mine[int(draws.integers(0, users - 1, 1)[0])]
        if own and draws.chance(AGAIN, 1)[0]:
            base = own[int(draws.integers(0, len(own) - 1, 1)[0])]
            text = f"{base} {_word(int(draws.weighted(words, 1)[0]))}"
        else:
            text = " ".join(map(_word, draws.weighted(words, int(draws.integers(1, 3, 1)[0])).tolist()))
        own.append(text)
        if len(text.split()) <= 5:
            found[text] = None
    return list(found)


def _word(number: int) -> str:
    """A word that no other word contains."""
    return f"w{number:05}"


def filters(texts: list[str]) -> list[Filter]:
    """One filter for each query: the page contains its text."""
    return [Filter.parse(f"query LIKE '%{text}%'") for text in texts]


def pages(texts: list[str], count: int) -> list[Event]:
    """Pages that contain some of the texts, short ones more often."""
    draws = Draws(0, 4)
    weights = np.cumsum([4.0 ** -len(text.split()) for text in texts])
    out = []
    for _ in range(count):
        chosen = draws.weighted(weights / weights[-1], int(draws.integers(1, 2 * QUOTED - 1, 1)[0]))
        out.append(Event({"query": " . ".join(texts[place] for place in chosen.tolist())}))
    return out
