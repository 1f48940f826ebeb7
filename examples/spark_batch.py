"""Spark, batch: match a table of events against an index of subscriptions, on all cores or on a cluster.

`compile_index` writes the subscriptions once as files that every worker maps into memory. `match` is a function from
DataFrame to DataFrame. Needs the extra `spark`.

It prints:

    compiled 3 subscriptions, rejected 1: Expected an attribute or a literal, but got ...
    order 1 -> big-orders
    order 2 -> abroad, big-orders
    order 3 -> books
"""

import tempfile

from whimbrel.pipeline import compile_index, match, session

spark = session()
subscriptions = spark.createDataFrame(
    [
        ("big-orders", "total >= 500"),
        ("abroad", "country NOT IN ('NO', 'SE')"),
        ("books", "category = 'book' AND total < 100"),
        ("broken", "total >"),
    ],
    "id string, filter string",
)
orders = spark.createDataFrame(
    [(1, "NO", "toy", 900.0), (2, "DE", "toy", 700.0), (3, "SE", "book", 20.0)],
    "event_id long, country string, category string, total double",
)

with tempfile.TemporaryDirectory() as folder:
    compiled = compile_index(subscriptions, f"{folder}/index")
    reason = compiled.rejects.first().message.splitlines()[0]
    print(f"compiled {compiled.added} subscriptions, rejected {compiled.rejected}: {reason}")
    for row in match(orders, f"{folder}/index", form="lists").sort("event_id").collect():
        print(f"order {row.event_id} -> {', '.join(sorted(row.subscriptions))}")
spark.stop()
