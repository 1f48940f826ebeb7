"""Writes the sample that the library bundles: a day of a small web shop, and what people want to hear of it.

The same seed gives the same files. Run it as a script after changing it: `python tests/lab/web_shop.py [folder]`.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

SAMPLES = Path(__file__).parents[2] / "src" / "whimbrel" / "lab" / "web_shop"
EVENTS, SEARCHES, SEED = 1_200, 90, 20_260_131

PRODUCTS = {
    "Toy": ["Wooden train", "Puzzle 500", "Kite", "Building blocks", "Plush owl", "Marble run"],
    "Book": ["Wading birds", "Night ferry", "Bread at home", "Salt marsh", "Short stories"],
    "Garden": ["Watering can", "Bird feeder", "Tulip bulbs", "Hedge shears", "Compost bin"],
    "Kitchen": ["Cast iron pan", "Bread knife", "Tea kettle", "Mixing bowl", "Coffee grinder"],
    "Outdoor": ["Binoculars 8x42", "Rain jacket", "Trail lamp", "Tent 2P", "Thermos"],
}
BRANDS = ["Curlew", "Tidal", "Fjord", "Heather", "Northlight"]
TAGS = ["new", "sale", "gift", "eco", "limited", "bestseller"]
COUNTRIES = ["NO", "SE", "DK", "DE", "NL", "GB", "PT"]
CITIES = {"NO": "Oslo", "SE": "Malmö", "DK": "Aarhus", "DE": "Köln", "NL": "Utrecht", "GB": "Leeds", "PT": "Porto"}
SERVICES = ["checkout", "search", "payments", "images"]

RULES = {
    "toy-deals": "type = 'price.changed' AND product.category = 'Toy' AND price < 15",
    "any-price-drop": "price < was",
    "half-price": "type = 'price.changed' AND discount >= 0.5",
    "binoculars-under-150": "product.name LIKE 'Binoculars%' AND price < 150",
    "bird-things": "product.name LIKE '%bird%' OR product.name LIKE '%Bird%'",
    "eco-gifts": "product.tags CONTAINS ALL ('eco', 'gift')",
    "sale-or-limited": "product.tags CONTAINS ANY ('sale', 'limited') AND price BETWEEN 10 AND 40",
    "nothing-on-sale": "type = 'price.changed' AND product.tags CONTAINS NONE ('sale')",
    "almost-sold-out": "stock BETWEEN 1 AND 3",
    "sold-out": "stock = 0",
    "big-orders": "type = 'order.placed' AND total > 400",
    "gold-customers": "customer.tier = 'gold'",
    "ship-abroad": "type = 'order.placed' AND shipping.country != customer.country",
    "express-north": "shipping.method = 'express' AND shipping.country IN ('NO', 'SE', 'DK')",
    "three-toys-in-one-line": "items.category = 'Toy' AND items.quantity >= 3",
    "no-phone": "type = 'order.placed' AND customer.phone IS MISSING",
    "angry-reviews": "type = 'review.posted' AND rating <= 2",
    "praise-or-verified": "rating = 5 OR (rating >= 4 AND verified)",
    "broken": "type = 'review.posted' AND (text LIKE '%broken%' OR text LIKE '%late%')",
    "page-on-call": "type = 'alert' AND severity IN ('high', 'critical')",
    "slow-checkout": "service = 'checkout' AND latency_ms > 800",
    "errors-outside-office": "type = 'alert' AND source_ip NOT IN CIDR '10.0.0.0/8'",
    "payments-not-low": "service = 'payments' AND NOT severity = 'low'",
    "after-lunch": "time >= TIMESTAMP '2026-01-31T13:00:00Z' AND type = 'alert'",
    "everything-for-the-audit": "TRUE",
    "page-on-call-again": "severity IN ('critical', 'high') AND type = 'alert'",
    "critical-only": "type = 'alert' AND severity = 'critical'",
    "never": "rating > 5 AND rating < 1",
}


def events(source: random.Random) -> Iterator[dict[str, object]]:
    """The day's events in order of time."""
    time = datetime(2026, 1, 31, 7)
    for _ in range(EVENTS):
        time += timedelta(seconds=source.randint(5, 60))
        make = source.choices([_price, _order, _review, _alert], [5, 3, 2, 2])[0]
        yield {"time": f"{time.isoformat()}Z", **make(source)}


def subscriptions(source: random.Random) -> Iterator[dict[str, object]]:
    """The rules, and saved searches that people made on the shop's page."""
    for id, text in RULES.items():
        yield {"id": id, "filter": text}
    for number in range(1, SEARCHES + 1):
        category = source.choice(list(PRODUCTS))
        tests = ["type = 'price.changed'", f"product.category = '{category}'"]
        if source.random() < 0.5:
            tests.append(f"product.brand IN ({', '.join(repr(brand) for brand in sorted(source.sample(BRANDS, 2)))})")
        if source.random() < 0.3:
            tests.append(f"product.tags CONTAINS '{source.choice(TAGS)}'")
        if source.random() < 0.3:
            tests.append(f"shop.country = '{source.choice(COUNTRIES)}'")
        tests.append(f"price < {source.randrange(8, 120)}")
        yield {"id": f"search-{number:03}", "filter": " AND ".join(tests)}


def _product(source: random.Random) -> dict[str, object]:
    category = source.choice(list(PRODUCTS))
    return {
        "category": category,
        "name": source.choice(PRODUCTS[category]),
        "brand": source.choice(BRANDS),
        "tags": sorted(source.sample(TAGS, source.randint(0, 3))),
    }


def _price(source: random.Random) -> dict[str, object]:
    was = source.randrange(600, 20_000) / 100
    discount = source.choice([0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.6])
    country = source.choice(COUNTRIES)
    return {
        "type": "price.changed",
        "product": _product(source),
        "price": round(was * (1 - discount), 2),
        "was": was,
        "discount": discount,
        "stock": source.choice([0, 1, 2, 5, 12, 40, 200]),
        "shop": {"country": country, "city": CITIES[country]},
    }


def _order(source: random.Random) -> dict[str, object]:
    items: list[dict[str, object]] = []
    total = 0.0
    for _ in range(source.randint(1, 4)):
        quantity, price = source.randint(1, 4), source.randrange(500, 9_000) / 100
        items.append({"category": source.choice(list(PRODUCTS)), "quantity": quantity, "price": price})
        total += quantity * price
    home = source.choice(COUNTRIES)
    customer = {"tier": source.choice(["new", "silver", "gold"]), "country": home}
    if source.random() < 0.7:
        customer["phone"] = f"+00 555 {source.randrange(10_000):04}"
    shipping = {
        "method": source.choice(["post", "express", "pickup"]),
        "country": home if source.random() < 0.85 else source.choice(COUNTRIES),
    }
    order = {"items": items, "total": round(total, 2), "customer": customer, "shipping": shipping}
    return {"type": "order.placed", **order}


def _review(source: random.Random) -> dict[str, object]:
    texts = ["as described", "arrived late", "a lovely gift", "broken on arrival", "would buy again", ""]
    review = {"rating": source.randint(1, 5), "text": source.choice(texts), "verified": source.random() < 0.6}
    return {"type": "review.posted", "product": _product(source), **review}


def _alert(source: random.Random) -> dict[str, object]:
    inside = source.random() < 0.8
    return {
        "type": "alert",
        "service": source.choice(SERVICES),
        "severity": source.choices(["low", "medium", "high", "critical"], [6, 4, 2, 1])[0],
        "latency_ms": source.randrange(20, 2_000),
        "source_ip": f"10.1.{source.randrange(9)}.{source.randrange(250)}"
        if inside
        else f"192.0.2.{source.randrange(250)}",
    }


def write(folder: Path) -> None:
    """Write both files into a folder."""
    for name, items in (("events", events(random.Random(SEED))), ("subscriptions", subscriptions(random.Random(SEED)))):
        text = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES)
