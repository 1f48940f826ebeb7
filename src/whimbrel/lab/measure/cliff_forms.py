"""Forms of filters, events and indexes, each with the plain form that it should not cost much more than.

A filter is a template whose fields are drawn by chance: `{user}`, `{low}` and `{high}`, `{users 50}` and so on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from whimbrel.engine.index import Index

USERS = 5_000
PRICES = 10_000
TAGS = 400
WORDS = ("red", "green", "blue", "amber", "violet", "silver", "copper", "pearl", "black", "white", "rose", "lime")
CITIES = ("Oslo", "Bergen", "Tromsø", "Bodø", "Ålesund", "Hamar", "Molde", "Narvik")

DrawEvent = Callable[[Random], dict[str, Any]]
Change = Callable[[Index, list[str]], None]
"""What is done to an index; the texts are those of its filters, and the ids their places."""


class SourceFields(dict[str, str]):
    """The fields of one filter, drawn when they are first asked for."""

    def __init__(self, source: Random) -> None:
        self._source = source

    def __missing__(self, field: str) -> str:
        name, _, count = field.partition(" ")
        self[field] = drawn = self._draw(name, int(count or 1))
        return drawn

    def _draw(self, name: str, count: int) -> str:
        below = self._source.randrange
        match name:
            case "user" | "users":
                return ", ".join(f"'u{user}'" for user in self._source.sample(range(USERS), count))
            case "tag" | "tags":
                return ", ".join(f"'t{tag}'" for tag in self._source.sample(range(TAGS), count))
            case "low":
                low = below(PRICES)
                self["high"], self["next"] = str(low + 500), str(low + 1)
                return str(low)
            case "a":
                names = self._source.sample(range(40), 3)
                self["b"], self["c"] = f"a{names[1]}", f"a{names[2]}"
                return f"a{names[0]}"
            case "skewed":
                return skewed_user(self._source)
            case "name":
                return full_name(self._source)
            case "fraction":
                return repr(PRICES * self._source.random())
            case "letters":
                return "".join(self._source.choices("abcdefghijklmnopqrstuvwxyz", k=8))
            case "word":
                return self._source.choice(WORDS)
            case "city":
                return self._source.choice(CITIES)
        return str({"price": below(PRICES), "dear": below(9_980, PRICES), "day": below(10, 29), "small": below(256),
                    "few": below(25), "other": below(25),
                    "number": below(USERS), "big": 2**53 + below(USERS)}[name])  # fmt: skip


def plain_event(source: Random) -> dict[str, Any]:
    """An event with all attributes that filters mention."""
    return {
        "user": f"u{source.randrange(USERS)}",
        "price": source.randrange(PRICES),
        "ceiling": source.randrange(PRICES),
        "tags": [f"t{tag}" for tag in source.sample(range(TAGS), 4)],
        "name": full_name(source),
        "city": source.choice(CITIES),
        "town": source.choice(CITIES),
        "address": f"10.{source.randrange(256)}.{source.randrange(256)}.{source.randrange(256)}",
        "at": f"2026-01-{source.randrange(10, 29)}T12:{source.randrange(10, 60)}:00Z",
        "big": 2**53 + source.randrange(USERS),
        "kind": "sale",
    }


def full_name(source: Random) -> str:
    """Two words and a number."""
    return f"{source.choice(WORDS)}-{source.choice(WORDS)}-{source.randrange(1_000)}"


def skewed_user(source: Random) -> str:
    """A user by a power law."""
    return f"u{int(USERS * source.random() ** 3)}"


@dataclass(frozen=True, slots=True)
class LoadForm:
    """A way to write filters."""

    name: str
    neighbour: str
    filter: str


@dataclass(frozen=True, slots=True)
class MatchForm(LoadForm):
    """Filters, events, and what was done to the index before events are matched."""

    event: DrawEvent = plain_event
    divide: int = 1
    """There are so many times fewer subscriptions, because each is large; also in its neighbour."""
    per_byte: bool = False
    """Events are longer than those of the neighbour: time may grow with their length."""
    change: Change | None = None
    timestamps: tuple[str, ...] = ()


def _event(**more: Callable[[Random], Any]) -> DrawEvent:
    """The plain event with other values for some attributes."""
    return lambda source: {**plain_event(source), **{name: value(source) for name, value in more.items()}}


def _wide(source: Random) -> dict[str, Any]:
    return {**plain_event(source), **{f"field_{n}": source.randrange(1_000) for n in range(490)}}


def _data(source: Random) -> dict[str, Any]:
    return {"id": source.randrange(1_000), "state": "open", "shop": {"city": "Oslo", "open": True}}


def _items(source: Random) -> list[dict[str, Any]]:
    return [{"sku": source.choice("ABC"), "n": source.randrange(9)} for _ in range(3)]


def _kinds(source: Random) -> list[str]:
    return [f"t{kind}" for kind in source.sample(range(25), 4)]


def _prices(source: Random) -> list[int]:
    return [source.randrange(PRICES), source.randrange(PRICES)]


def _one_mentions_items(index: Index, texts: list[str]) -> None:
    index.add(len(texts), "items.sku = 'A' AND items.n = 1")
    index.merge()


def _add(count: int) -> Change:
    def change(index: Index, texts: list[str]) -> None:
        for number, text in enumerate(texts[:count]):
            index.add(len(texts) + number, text)

    return change


def _remove_half(index: Index, texts: list[str]) -> None:
    for number in range(0, len(texts), 2):
        index.remove(number)


def _replace_half(index: Index, texts: list[str]) -> None:
    for number in range(0, len(texts), 2):
        index.replace(number, texts[number])


def _twenty_times(index: Index, texts: list[str]) -> None:
    """Load the filters anew in twenty steps."""
    for number in range(len(texts)):
        index.remove(number)
    step = max(1, len(texts) // 20)
    for first in range(0, len(texts), step):
        index.add_many((len(texts) + first + n, text) for n, text in enumerate(texts[first : first + step]))


_PLAIN = "user = {user} AND price BETWEEN {low} AND {high}"
_MANY = "{a} = {user} AND {b} BETWEEN {low} AND {high} AND {c} > {price}"

_LOADED_BESIDE = {
    "plain": {
        "plain": _PLAIN,
        "lower-case keywords": "user = {user} and price between {low} and {high}",
        "odd spaces": "  user={user}\n  AND  price BETWEEN   {low} AND {high} ",
        "parentheses": "(user = {user}) AND (price BETWEEN {low} AND {high})",
        ">= with <=": "user = {user} AND price >= {low} AND price <= {high}",
        "flipped sides": "{user} = user AND {low} <= price AND {high} >= price",
        "OR of two": f"{_PLAIN} OR city = '{{city}}' AND ceiling < {{price}}",
        "AND of ORs": "(user = {user} OR city = '{city}') AND (price < {price} OR ceiling > {low})",
        "NOT": "user = {user} AND NOT price > {price}",
        "NOT of an OR": "user = {user} AND NOT (price > {price} OR ceiling < {low})",
        "IS NULL": "user = {user} AND price > {price} AND city IS NULL",
        "IS NOT NULL": "user = {user} AND price > {price} AND city IS NOT NULL",
        "!=": "user = {user} AND city != '{city}'",
        "IN of 5": "user = {user} AND name IN ({users 5})",
        "IN of 50": "user = {user} AND name IN ({users 50})",
        "NOT IN of 5": "user = {user} AND name NOT IN ({users 5})",
        "LIKE prefix": "user = {user} AND name LIKE '{name}%'",
        "LIKE suffix": "user = {user} AND name LIKE '%{name}'",
        "LIKE infix": "user = {user} AND name LIKE '%{name}%'",
        "CONTAINS": "user = {user} AND tags CONTAINS {tag}",
        "CONTAINS ALL": "user = {user} AND tags CONTAINS ALL ({tags 2})",
        "CONTAINS ANY": "user = {user} AND tags CONTAINS ANY ({tags 2})",
        "CONTAINS NONE": "user = {user} AND tags CONTAINS NONE ({tags 2})",
        "IN CIDR": "user = {user} AND address IN CIDR '10.{small}.0.0/16'",
        "two attributes compared": "user = {user} AND price < ceiling",
        "a TIMESTAMP": "user = {user} AND at > TIMESTAMP '2026-01-{day}T00:00:00Z'",
        "text beyond ASCII": "user = 'ユーザー{number}' AND price BETWEEN {low} AND {high}",
        "an escaped quote": "user = 'O''Neill {number}' AND price BETWEEN {low} AND {high}",
        "quoted names": '"user" = {user} AND "price" BETWEEN {low} AND {high}',
        "decimals and exponents": "user = {user} AND price BETWEEN {low}.25 AND {high}.5e3",
        "integers beyond 2^53": "user = {user} AND big = {big}",
        "integers of 19 digits": "user = {user} AND big IN (9223372036854770000, 9223372036854{low})",
        "<=>": "user = {user} AND price <=> {low}",
        "NULL in a list": "user = {user} AND price IN ({low}, NULL, {high})",
        "numbers and texts in a list": "user = {user} AND price IN ({low}, {user}, TRUE)",
        "NOT BETWEEN": "user = {user} AND price NOT BETWEEN {low} AND {high}",
        "IPv6 networks": "user = {user} AND address IN CIDR '2001:db8:{number}::/48'",
        "1 = 1": "1 = 1 AND user = {user} AND price > {low}",
        "two texts compared": "'a' < {user} AND user = {user} AND price > {low}",
        "IS NOT TRUE": "user = {user} AND price > {price} AND active IS NOT TRUE",
        "NOT <=>": "user = {user} AND NOT price <=> {low}",
        "<=> of two attributes": "user = {user} AND price <=> ceiling",
        "an attribute beside itself": "user = {user} AND price <= price",
        "BETWEEN attributes": "user = {user} AND {price} BETWEEN low AND high",
        "NOT CONTAINS ALL": "user = {user} AND tags NOT CONTAINS ALL ({tags 2})",
        "CONTAINS NULL": "user = {user} AND tags CONTAINS ANY ({tag}, NULL)",
        "a list of two types": "user = {user} AND price IN ({low}, {high}, {users 2})",
        "integers beyond 64 bits": "user = {user} AND big = 123456789012345{low}678",
        "floats of 17 digits": "user = {user} AND price BETWEEN {fraction} AND {fraction 2}",
        "floats beyond 2^53": "user = {user} AND big > {price}.5e20",
        "times after 2262": "user = {user} AND at < DATE '9999-12-{day}'",
        "white space beyond ASCII": "user = {user}\u00a0AND price\u3000BETWEEN {low} AND {high}",
        "keywords in small letters": "user = {user} and name starts with '{name}' and not b",
        "names beyond ASCII": "größe = {user} AND preis BETWEEN {low} AND {high}",
        "sixty parentheses": f"{'(' * 60}user = {{user}}{')' * 60} AND price < {{low}}",
        "OR of 100": " OR ".join(f"a{n} = {{low}}" for n in range(100)),
        "OR of 100 values": " OR ".join(f"a = {{low}}{n}" for n in range(100)),
        "AND of 100 values": " AND ".join(f"a != {{low}}{n}" for n in range(100)),
        "twelve predicates": " AND ".join(f"a{n} > {{low}}" for n in range(12)),
        "ten parentheses": f"{'(' * 10}user = {{user}} AND price < {{low}}{')' * 10}",
        "a bare boolean": "user = {user} AND price > {price} AND active",
        "many shapes": _MANY,
    },
    "LIKE infix": {
        "LIKE with an escape": "user = {user} AND name LIKE '%{name}\\_{small}%'",
        "LIKE with ESCAPE": "user = {user} AND name LIKE '%{name}!_%' ESCAPE '!'",
        "LIKE of two fragments": "user = {user} AND name LIKE '%{name}%{word}'",
        "NOT LIKE": "user = {user} AND name NOT LIKE '%{name}%'",
        "ILIKE": "user = {user} AND name ILIKE '%{name}%'",
        "lower()": "user = {user} AND lower(name) = '{name}'",
        "upper() in a list": "user = {user} AND upper(name) IN ('X{low}', 'Y{high}')",
        "RLIKE": "user = {user} AND name RLIKE '^{word}-.*-{small}$'",
        "LIKE of two, all different": "user = {user} AND name LIKE '%{letters}%{name}'",
        "ILIKE of two, all different": "user = {user} AND name ILIKE '%{letters}%{name}%'",
        "LIKE of 200 letters": f"user = {{user}} AND name LIKE '%{{letters}}{'x' * 192}%'",
        "RLIKE, all different": "user = {user} AND name RLIKE '^/{letters}/[0-9]+$'",
        "RLIKE of two, all different": "user = {user} AND name RLIKE '({letters}|{name}).*{small}'",
        "RLIKE with a flag": "user = {user} AND name RLIKE '(?i){letters}'",
        "RLIKE of words": "user = {user} AND name RLIKE '\\b{letters}\\b'",
        "NOT RLIKE": "user = {user} AND name NOT RLIKE '^/{letters}/[0-9]+$'",
        "NOT lower() in a list": "user = {user} AND NOT lower(name) IN ('x{low}', 'y{high}')",
    },
    "many shapes": {
        "many shapes, >= with <=": "{a} = {user} AND {b} >= {low} AND {b} <= {high} AND {c} > {price}",
        "many shapes, parentheses": "({a} = {user}) AND ({b} >= {low} AND {b} <= {high}) AND ({c} > {price})",
        "many shapes, lower-case keywords": "{a} = {user} and {b} between {low} and {high} and {c} > {price}",
        "many shapes, flipped": "{user} = {a} AND {low} <= {b} AND {high} >= {b} AND {price} < {c}",
        "many shapes, odd spaces": " {a}={user}  AND {b} BETWEEN {low}  AND {high}\nAND {c}  >{price}",
        "many shapes, IS NOT NULL": "{a} = {user} AND {b} IS NOT NULL AND {c} > {price}",
        "many shapes, LIKE": "{a} = {user} AND {b} LIKE '%{name}%' AND {c} > {price}",
        "many shapes, two attributes": "{a} = {user} AND {b} < {c}",
        "many shapes, IS NOT TRUE": "{a} = {user} AND {b} IS NOT TRUE AND {c} > {price}",
        "many shapes, OR": "{a} = {user} AND ({b} > {low} OR {c} > {price})",
    },
    "many shapes, LIKE": {
        "many shapes, ILIKE": "{a} = {user} AND {b} ILIKE '%{name}%' AND {c} > {price}",
    },
}
"""The filters of load forms by their names, and these by the form that they should not cost much more than."""
LOAD_FORMS = tuple(
    LoadForm(name, neighbour, filter) for neighbour, forms in _LOADED_BESIDE.items() for name, filter in forms.items()
)

_RANGE = "price > {dear}"

MATCH_FORMS: tuple[MatchForm, ...] = (
    # What filters ask for.
    MatchForm("plain", "plain", _PLAIN),
    MatchForm("equality, dear", "plain", "user = {user} AND price > 9500"),
    MatchForm("range", "range", _RANGE),
    MatchForm("equality AND price < ceiling", "plain", "user = {user} AND price < ceiling"),
    MatchForm("range AND price < ceiling", "range", f"price < ceiling AND {_RANGE}"),
    MatchForm("range AND city != town", "range", f"city != town AND {_RANGE}"),
    MatchForm("IN of 5", "equality, dear", "user IN ({users 5}) AND price > 9500"),
    MatchForm("IN of 50", "equality, dear", "user IN ({users 50}) AND price > 9500"),
    MatchForm("IN of 500", "equality, dear", "user IN ({users 500}) AND price > 9500", divide=10),
    MatchForm("IN of 3,000", "equality, dear", "user IN ({users 3000}) AND price > 9500", divide=100),
    MatchForm("NOT IN of 50", "plain", f"{_PLAIN} AND name NOT IN ({{users 50}})"),
    MatchForm("CONTAINS", "equality, dear", "tags CONTAINS {tag} AND price > 9500"),
    MatchForm("CONTAINS ALL of 2", "CONTAINS", "tags CONTAINS ALL ({tags 2}) AND price > 9500"),
    MatchForm("CONTAINS, many", "plain", "kinds CONTAINS 't{few}' AND price > {dear}", _event(kinds=_kinds)),
    MatchForm(
        "CONTAINS ALL of 2, many", "CONTAINS, many",
        "kinds CONTAINS ALL ('t{few}', 't{other}') AND price > {dear}", _event(kinds=_kinds),
    ),
    MatchForm("CONTAINS ALL of 6", "CONTAINS", "tags CONTAINS ALL ({tags 6}) AND price > 9500"),
    MatchForm("CONTAINS ANY of 3", "CONTAINS", "tags CONTAINS ANY ({tags 3}) AND price > 9500"),
    MatchForm("CONTAINS NONE of 3", "plain", f"{_PLAIN} AND tags CONTAINS NONE ({{tags 3}})"),
    MatchForm("string equality", "plain", "name = '{name}' AND price > 9500"),
    MatchForm("LIKE prefix", "string equality", "name LIKE '{name}%' AND price > 9500"),
    MatchForm("LIKE suffix", "string equality", "name LIKE '%{word}-{small}' AND price > 9500"),
    MatchForm("LIKE infix", "string equality", "name LIKE '%{word}-{small}%' AND price > 9500"),
    MatchForm("LIKE two fragments", "string equality", "name LIKE '%{word}%{small}' AND price > 9500"),
    MatchForm("LIKE with _", "LIKE infix", "name LIKE '%{word}_{small}%' AND price > 9500"),
    MatchForm("ILIKE infix", "LIKE infix", "name ILIKE '%{word}-{small}%' AND price > 9500"),
    MatchForm("lower()", "LIKE suffix", "lower(name) = '{name}' AND price > 9500"),
    MatchForm("RLIKE", "string equality", "name RLIKE '^{word}-.*-{small}$' AND price > 9500", divide=100),
    MatchForm("RLIKE in any case", "RLIKE", "name RLIKE '(?i)^{word}-.*-{small}$' AND price > 9500", divide=100),
    MatchForm("RLIKE beside equality", "plain", f"{_PLAIN} AND name RLIKE '{{word}}'"),
    MatchForm("NOT LIKE beside equality", "plain", f"{_PLAIN} AND name NOT LIKE '%{{word}}-{{small}}%'"),
    MatchForm("NOT ILIKE beside equality", "plain", f"{_PLAIN} AND name NOT ILIKE '%{{word}}-{{small}}%'"),
    MatchForm("NOT RLIKE beside equality", "plain", f"{_PLAIN} AND name NOT RLIKE '{{word}}-{{small}}$'"),
    MatchForm("IN CIDR", "string equality", "address IN CIDR '10.{small}.0.0/16' AND price > 9500"),
    MatchForm("IS NOT NULL beside equality", "plain", f"{_PLAIN} AND city IS NOT NULL"),
    MatchForm("IS NULL beside equality", "plain", f"{_PLAIN} AND absent IS NULL"),
    MatchForm("!= beside equality", "plain", f"{_PLAIN} AND city != '{{city}}'"),
    MatchForm("!= and a range", "range", f"user != {{user}} AND {_RANGE}"),
    MatchForm("OR of two", "plain", f"{_PLAIN} OR big = {{big}} AND ceiling < 500"),
    MatchForm("tiny ranges", "plain", "price BETWEEN {low} AND {next}"),
    MatchForm("a hot key that all share", "tiny ranges", "kind = 'sale' AND price BETWEEN {low} AND {next}"),
    MatchForm("integers beyond 2^53", "plain", "big = {big} AND price BETWEEN {low} AND {high}"),
    MatchForm("floats where filters have integers", "plain", _PLAIN, _event(price=lambda s: s.random() * PRICES)),
    MatchForm(
        "text beyond ASCII", "plain", "user = 'ユーザー{number}' AND price BETWEEN {low} AND {high}",
        _event(user=lambda source: f"ユーザー{source.randrange(USERS)}"),
    ),
    MatchForm(
        "TIMESTAMP beside equality", "plain", "user = {user} AND at > TIMESTAMP '2026-01-{day}T00:00:00Z'",
        timestamps=("at",),
    ),
    # What events are like.
    MatchForm("a nested object that no filter mentions", "plain", _PLAIN, _event(data=_data)),
    MatchForm("an array of objects that no filter mentions", "plain", _PLAIN, _event(items=_items)),
    MatchForm(
        "an array of objects that one filter mentions", "plain", _PLAIN, _event(items=_items),
        change=_one_mentions_items,
    ),
    MatchForm("a list where filters want one value", "plain", _PLAIN, _event(price=_prices)),
    MatchForm("a time as text", "plain", _PLAIN, timestamps=("at",)),
    MatchForm("500 attributes", "plain", _PLAIN, _wide, per_byte=True),
    MatchForm("a text of 5,000 characters", "plain", _PLAIN, _event(note=lambda _: "x" * 5_000), per_byte=True),
    MatchForm(
        "users by a power law", "plain", "user = '{skewed}' AND price BETWEEN {low} AND {high}",
        _event(user=skewed_user),
    ),
    # What was done to the index.
    MatchForm("after 1 add", "plain", _PLAIN, change=_add(1)),
    MatchForm("after 500 adds", "plain", _PLAIN, change=_add(500)),
    MatchForm("after half were removed", "plain", _PLAIN, change=_remove_half),
    MatchForm("after half were replaced", "plain", _PLAIN, change=_replace_half),
    MatchForm("loaded in 20 steps", "plain", _PLAIN, change=_twenty_times),
)  # fmt: skip
