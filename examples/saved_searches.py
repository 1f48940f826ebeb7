"""Saved searches: which of the visitors' saved searches does a new listing satisfy?

A batch of listings is one Arrow table in, one table of (listing, search) pairs out. `explain` tells a visitor why a
listing was not shown.

It prints:

    flat in Bergen: garden-flats, near-the-sea
    house in Oslo: big-houses
    no match
      + features CONTAINS ALL ('balcony', 'garden')  [features: 'garden', 'balcony', 'sea view']
      + kind = 'flat'  [kind: 'flat']
      - price <= 2000  [price: 2400, off by 400]
"""

import pyarrow as pa

from whimbrel import Index

searches = Index()
searches.add("garden-flats", "kind = 'flat' AND features CONTAINS 'garden'")
searches.add("big-houses", "kind = 'house' AND rooms >= 5 AND city IN ('Oslo', 'Bergen')")
searches.add("near-the-sea", "features CONTAINS ANY ('sea view', 'boat house') OR title LIKE '%fjord%'")
searches.add("cheap-garden-flats", "kind = 'flat' AND price <= 2000 AND features CONTAINS ALL ('garden', 'balcony')")

listings = [
    {"kind": "flat", "city": "Bergen", "rooms": 3, "price": 2400, "features": ["garden", "balcony", "sea view"]},
    {"kind": "house", "city": "Oslo", "rooms": 6, "price": 5100, "title": "Close to the forest"},
]
pairs = searches.match_batch(pa.Table.from_pylist(listings)).to_pylist()
for number, listing in enumerate(listings):
    found = sorted(pair["subscription"] for pair in pairs if pair["event"] == number)
    print(f"{listing['kind']} in {listing['city']}: {', '.join(found)}")

print(searches.explain("cheap-garden-flats", listings[0]))
