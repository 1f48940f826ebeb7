"""The stock workload: alerts on symbol, price and volume, and the daily quotes that may set them off.

The quotes are the real ones of the PADRES project where they are found (`find_quotes`), else a random walk with the
same columns. An alert is drawn around a quote, so that it asks for prices and volumes that its symbol has had.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from whimbrel.compiled.array_types import Bools, Floats
from whimbrel.lab.workloads.draws import Draws, Ints
from whimbrel.lab.workloads.text import concat, conjoin, integer_text, pick, subscriptions
from whimbrel.lab.workloads.workload import Workload, check_counts

QUOTES_FILE = "stock_quotes.parquet"
SYMBOLS, DAYS = 100, 2_452
FIRST_DAY = np.datetime64("1995-01-02")
LOWEST_CENTS = 10
LOT = 100

WITH_SYMBOL = 0.9
WITH_PRICE, WITH_VOLUME = 0.9, 0.4
PRICE_BAND, PRICE_AT_MOST = 0.8, 0.1
HALF_WIDTHS = (0.005, 0.05)
VOLUME_FACTORS = (0.5, 3.0)


def stocks(n: int, events: int | None = None, seed: int = 0, real: bool | None = None) -> Workload:
    """n alerts such as `symbol = 'AAPL' AND close BETWEEN 25.9 AND 27.1 AND volume >= 400000` over daily quotes.

    90 % name a symbol: 90 % of these ask for a price (80 % a band of 0.5 to 5 % on either side of a past one, else one
    bound), 40 % and those without a price for a least volume. The rest ask for a band and a volume of any symbol.
    `events` is how many quotes, evenly spaced in time (None: all). `real` asks for the real quotes or for the stand-in
    (None: real where found); the parameter of the same name in the result, 1 or 0, says which they are. At n = 100,000
    an event matches 204 subscriptions with the real quotes and 163 with the stand-in (measured).
    """
    check_counts("stocks", n=n, seed=seed, events=1 if events is None else events)
    path = find_quotes() if real is None or real else None
    if real and path is None:
        raise FileNotFoundError(f"stocks: expected {QUOTES_FILE} in the directory WHIMBREL_QUOTES, but found none")
    quotes = walk(Draws(seed, 2)) if path is None else pa.parquet.read_table(path)
    count = quotes.num_rows if events is None else events
    check_counts("stocks", (count <= quotes.num_rows, f"expected at most {quotes.num_rows} events, but got {count}"))
    draws = Draws(seed, 0)
    anchors = _Anchors.of(quotes)
    table = subscriptions(n, lambda rows: _filters(draws, rows, anchors))
    spaced = np.arange(count) * quotes.num_rows // count
    parameters = {"n": n, "events": count, "real": int(path is not None)}
    return Workload("stocks", parameters, seed, table, quotes.take(pa.array(spaced)).combine_chunks())


def find_quotes() -> Path | None:
    """The real quotes: in the directory WHIMBREL_QUOTES, else in shared/data beside the repository; else None."""
    given = os.environ.get("WHIMBREL_QUOTES")
    directory = Path(given) if given else Path(__file__).parents[5] / "shared" / "data"
    path = directory / QUOTES_FILE
    return path if path.is_file() else None


def walk(draws: Draws) -> pa.Table:
    """The stand-in: 100 symbols over 2,452 weekdays, prices a random walk in cents, volumes in lots of 100.

    Steps are sums of uniforms rather than true normals, as sums are the same on every machine and logarithms are not.
    """
    shape = DAYS, SYMBOLS
    steps = 1 + 0.02 * (draws.uniform(12, *shape).sum(axis=0) - 6)
    start = 5 + 95 * draws.uniform(SYMBOLS) ** 2
    close = np.maximum(start * np.cumprod(steps, axis=0), LOWEST_CENTS / 100)
    opening = close * (0.99 + 0.02 * draws.uniform(*shape))
    high = np.maximum(opening, close) * (1 + 0.02 * draws.uniform(*shape))
    low = np.minimum(opening, close) * (1 - 0.02 * draws.uniform(*shape))
    typical = 50_000 / (0.01 + draws.uniform(SYMBOLS))
    volume = (typical * (0.5 + 0.5 / (0.05 + draws.uniform(*shape))) / LOT).astype(np.int64) * LOT
    days = np.busday_offset(FIRST_DAY, np.arange(DAYS), roll="forward")
    columns = {"symbol": pick([f"S{i:02}" for i in range(SYMBOLS)], np.tile(np.arange(SYMBOLS), DAYS))}
    for name, prices in {"open": opening, "high": high, "low": low, "close": close}.items():
        columns[name] = pa.array(np.rint(prices.ravel() * 100) / 100)
    columns["volume"] = pa.array(volume.ravel())
    columns["date"] = pa.array(np.repeat(days, SYMBOLS)).cast(pa.date32())
    return pa.table(columns)


@dataclass(frozen=True)
class _Anchors:
    """The columns of the quotes that alerts are drawn around; symbols as texts and an index into them."""

    symbols: list[str]
    symbol: Ints
    cents: Ints
    volume: Ints

    @classmethod
    def of(cls, quotes: pa.Table) -> "_Anchors":
        encoded = quotes["symbol"].combine_chunks().dictionary_encode()
        cents = np.rint(quotes["close"].to_numpy() * 100).astype(np.int64)
        symbol = encoded.indices.to_numpy().astype(np.int64)
        return cls(encoded.dictionary.to_pylist(), symbol, cents, quotes["volume"].to_numpy())


def _filters(draws: Draws, rows: int, anchors: _Anchors) -> pa.Array:
    anchor = draws.integers(0, anchors.symbol.size - 1, rows)
    named = draws.chance(WITH_SYMBOL, rows)
    priced = draws.chance(WITH_PRICE, rows) | ~named
    weighed = draws.chance(WITH_VOLUME, rows) | ~named | ~priced
    share = np.where(named, draws.uniform(rows), 0.0)
    quoted = ["symbol = '{}'".format(symbol.replace("'", "''")) for symbol in anchors.symbols]
    return conjoin(
        pick(quoted, anchors.symbol[anchor], named),
        *_prices(draws, anchors.cents[anchor], priced, share),
        _volumes(draws, anchors.volume[anchor], weighed),
    )


def _prices(draws: Draws, cents: Ints, held: Bools, share: Floats) -> list[pa.Array]:
    """A band, a highest or a lowest price, as `share` says: three columns, at most one of them not null in a row."""
    narrowest, widest = HALF_WIDTHS
    half = cents * (narrowest + (widest - narrowest) * draws.uniform(cents.size))
    low = _price_text(np.floor(cents - half).astype(np.int64))
    high = _price_text(np.ceil(cents + half).astype(np.int64))
    band, top = held & (share < PRICE_BAND), held & (share >= PRICE_BAND) & (share < PRICE_BAND + PRICE_AT_MOST)
    return [
        _where(band, concat("close BETWEEN ", low, " AND ", high)),
        _where(top, concat("close <= ", low)),
        _where(held & ~band & ~top, concat("close >= ", high)),
    ]


def _volumes(draws: Draws, volume: Ints, held: Bools) -> pa.Array:
    least, most = VOLUME_FACTORS
    bound = (volume * (least + (most - least) * draws.uniform(volume.size)) / LOT).astype(np.int64) * LOT
    return _where(held, concat("volume >= ", integer_text(bound)))


def _price_text(cents: Ints) -> pa.Array:
    different, index = np.unique(cents, return_inverse=True)
    return pick([repr(price / 100) for price in different.tolist()], index)


def _where(held: Bools, texts: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(held), texts, None)
