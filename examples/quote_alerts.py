"""Alerts on quotes: many traders have rules of their own, each quote finds the rules that it fires.

It prints:

    20,000 alerts loaded
    WHIM 103.5 fires ['breakout-WHIM', 'whim-or-volume']
    TERN 12.1 fires ['whim-or-volume']
    CURL 55.0 fires nothing; nearest: breakout-CURL is off by 45.0
"""

from whimbrel import Index

SYMBOLS = ["WHIM", "CURL", "TERN", "GULL", "KNOT"]

index = Index()
index.add_many((f"breakout-{symbol}", f"symbol = '{symbol}' AND price >= 100") for symbol in SYMBOLS)
index.add("whim-or-volume", "symbol = 'WHIM' AND price > 101 OR volume > 1000000")
index.add_many(
    (f"trader-{n}", f"symbol = 'S{n % 4000}' AND price BETWEEN {n % 50} AND {n % 50 + 3}") for n in range(19_994)
)
print(f"{len(index):,} alerts loaded")

quotes = [
    {"symbol": "WHIM", "price": 103.5, "volume": 1200},
    {"symbol": "TERN", "price": 12.1, "volume": 2_500_000},
    {"symbol": "CURL", "price": 55.0, "volume": 700},
]
for quote in quotes:
    fired = index.match(quote)
    if fired:
        print(f"{quote['symbol']} {quote['price']} fires {sorted(map(str, fired))}")
        continue
    nearest = index.near_misses(quote, limit=1)[0]
    failed = next(one for one in nearest.explanation.constraints if not one.held)
    print(f"{quote['symbol']} {quote['price']} fires nothing; nearest: {nearest.id} is off by {failed.distance}")
