"""Networks in the index, against the filters themselves and against Python's own reading of addresses."""

from __future__ import annotations

import ipaddress
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.engine.test_index import pairs
from whimbrel import Filter, Index
from whimbrel.ranks.patterns.networks import Networks4

ODD = [
    "", "1", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.00", "256.1.1.1", "1..2.3", ".1.2.3", "1.2.3.", "1.2.3.4 ",
    "0.0.0.0", "255.255.255.255", "1.2.3.1000", "\u0661.2.3.4", "::", "::1", "fe80::1%eth0", "::ffff:10.1.2.3", ":",
    "1:2", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8:9", "fe80::1%" + 60 * "x", "10.1.2.3/8", "x:y", "\u00e9:1", "10.1.2.3",
]  # fmt: skip

addresses = st.one_of(
    st.sampled_from(ODD),
    st.ip_addresses().map(str),
    st.integers(0, 2**12).map(lambda n: str(ipaddress.IPv4Address(0x0A010000 + n))),
    st.text(alphabet="0123456789.:a", max_size=16),
)
networks = st.one_of(
    st.tuples(st.integers(0, 2**12).map(lambda n: 0x0A010000 + n), st.integers(0, 32)).map(
        lambda pair: str(ipaddress.IPv4Network(pair, strict=False))
    ),
    st.tuples(st.ip_addresses(v=6).map(int), st.integers(0, 128)).map(
        lambda pair: str(ipaddress.IPv6Network(pair, strict=False))
    ),
    st.sampled_from(["0.0.0.0/0", "::/0", "10.1.2.3/32", "::ffff:0:0/96", "fe80::/10"]),
)
tests = st.tuples(networks, st.sampled_from(["ip IN CIDR '{}'", "ip NOT IN CIDR '{}'", "n = 1 AND ip IN CIDR '{}'"]))
values = st.one_of(addresses, addresses, st.none(), st.just(7), st.lists(st.one_of(addresses, st.none()), max_size=3))


def check(kept: dict[int, Filter], rows: list[dict[str, Any]], index: Index) -> None:
    expected = [(place, id) for place, row in enumerate(rows) for id, filter in kept.items() if filter.matches(row)]
    assert [(place, id) for place, row in enumerate(rows) for id in index.match(row)] == expected
    assert sorted(pairs(index.match_batch(rows))) == expected


@given(st.lists(tests, min_size=1, max_size=8), st.lists(values, min_size=1, max_size=8), st.booleans())
@example(
    [("10.1.2.3/8", "ip NOT IN CIDR '{}'"), ("10.1.2.3/8", "ip IN CIDR '{}'")], [["10.2.0.0", "1.1.1.1"], []], True
)
def test_networks_match_as_their_filters_do(chosen: list[tuple[str, str]], found: list[Any], in_segment: bool) -> None:
    kept = {id: Filter.parse(shape.format(network)) for id, (network, shape) in enumerate(chosen)}
    index = Index()
    index.add_many(kept.items())
    if in_segment:
        index.merge()
    check(kept, [{"ip": value, "n": 1} for value in found], index)
    texts = [value if isinstance(value, str) else None for value in found]
    for column in (pa.array(texts, pa.string()), pa.array(texts, pa.string()).dictionary_encode()):
        table = pa.table({"ip": column, "n": pa.array([1] * len(texts))}).slice(1)
        rows = table.to_pylist()
        expected = [(place, id) for place, row in enumerate(rows) for id, filter in kept.items() if filter.matches(row)]
        assert sorted(pairs(index.match_batch(table))) == expected


@given(st.lists(addresses))
def test_addresses_are_read_as_python_reads_them(texts: list[str]) -> None:
    data = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, data)])
    everything = np.frombuffer(b"00000000" + b"000", np.uint8).reshape(1, 11)  # 0.0.0.0/0
    networks = Networks4(everything, np.array([1]), np.array([False]))
    ends, _ = networks.find(offsets, np.frombuffer(b"".join(data), np.uint8))
    for text, known in zip(texts, np.diff(ends).tolist(), strict=True):
        try:
            ipaddress.IPv4Address(text)
            assert known == 1, text
        except ValueError:
            assert known == 0, text


def test_many_networks_are_looked_up_and_none_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    index = Index()
    kept = {}
    for id in range(2_000):
        network = ipaddress.IPv4Network((rng.randrange(2**32), rng.choice([8, 16, 24, 28, 32])), strict=False)
        kept[id] = Filter.parse(f"src {'NOT ' if id % 50 == 0 else ''}IN CIDR '{network}'")
    kept[2_000] = Filter.parse("src IN CIDR '2001:db8::/32' AND port = 80")
    index.add_many(kept.items())
    index.merge()
    index.save(tmp_path / "index")
    events: list[dict[str, Any]] = [
        {"src": str(ipaddress.IPv4Address(rng.randrange(2**32))), "port": 80} for _ in range(50)
    ]
    events += [{"src": "2001:db8::7", "port": 80}, {"src": "2001:db9::7", "port": 80}, {"src": "2001:db8::7"}]
    expected = [[id for id, filter in kept.items() if filter.matches(event)] for event in events]
    assert sum(map(len, expected)) > 2_000
    for one in (index, Index.open(tmp_path / "index")):
        monkeypatch.setattr(one._subscriptions, "verify", lambda *_: pytest.fail("verified"))
        assert [one.match(event) for event in events] == expected
        assert sorted(pairs(one.match_batch(events))) == [(e, id) for e, ids in enumerate(expected) for id in ids]
    assert index.plan(1)["conjunctions"][0]["patterns"] == ["src"]  # type: ignore[index]
