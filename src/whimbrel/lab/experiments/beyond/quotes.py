"""Real data: alerts on daily stock quotes of the PADRES project, or on a random walk where they are not there."""

from __future__ import annotations

from whimbrel.lab.harness.claims import order
from whimbrel.lab.harness.contenders import loaded, plain, race
from whimbrel.lab.harness.experiment import Experiment, Point, TimedWorks, grid, per_subscription
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Panel
from whimbrel.lab.workloads import make

SERIES = plain("fair_predicate", "equality_preferred", "quarantine", "compiled_naive")


def measure(point: Point) -> TimedWorks:
    """Three algorithms, compiled naive and the engine; a row says whether quotes are real."""
    n = int(point["n"])
    workload = make("stocks", n=n, events=200 if n <= 1_000 else 5_000)
    events = workload.events.drop_columns(["date"])
    yield Row("all", "real quotes", float(workload.parameters["real"]))
    yield from race(loaded(SERIES, workload.subscriptions), events)


EXPERIMENT = Experiment(
    name="beyond-quotes",
    figure="stock quotes",
    question="Who is fastest on alerts over real stock quotes?",
    why="Most alerts name a symbol and a narrow band of prices: a lookup of the symbol, then a search among its bands.",
    scales={
        "tiny": grid(n=[500, 1_000]),
        "small": grid(n=[10_000, 100_000]),
        "paper": grid(n=[10_000, 50_000, 200_000, 800_000]),
        "full": grid(n=[100_000, 1_000_000, 5_000_000]),
    },
    timed=measure,
    memory=per_subscription(3_500),
    panels=(
        Panel("time", "n", "alerts", "CPU us per quote"),
        Panel("matches", "n", "alerts", "matches per quote"),
    ),
    claims=(order("Ours: the engine is fastest", "time", "engine", "quarantine"),),
    notes=(
        "Nine of ten alerts name a symbol; most ask for a band of 0.5 to 5 % around a past price, 40 % for a volume.",
        "The measure `real quotes` is 1 where stock_quotes.parquet was found, else 0.",
    ),
)
