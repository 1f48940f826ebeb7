from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from whimbrel.cli.main import app
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.overlay.router.prefix_router import PrefixRouter
from whimbrel.overlay.router.trace import trace_hop
from whimbrel.overlay.tree.paths import Interest
from whimbrel.overlay.tree.prefix import Prefix

SUBSCRIPTIONS = [
    {"subscription": "cheap", "where": "r3", "filter": "category = 'Toy' AND price < 5"},
    {"subscription": "dear", "where": "r2", "filter": "price >= 100"},
    {"subscription": "odd", "where": "r3", "filter": "category = 'Toy' AND price < limit AND note RLIKE 'x'"},
]


@pytest.fixture
def subscriptions(tmp_path: Path) -> Path:
    path = tmp_path / "subscriptions.jsonl"
    path.write_text("\n".join(map(json.dumps, SUBSCRIPTIONS)) + '\n\n{"event": 0}\n')
    return path


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["overlay", *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_trace_names_hops_filters_and_where_an_event_stops(subscriptions: Path) -> None:
    options = ("--routers", "4", "--shape", "path", "--subscriptions", str(subscriptions))
    text = run("trace", '{"category": "Toy", "price": 3}', "--at", "r1", *options)
    assert text.splitlines() == [
        "r1: published; matched, 2 nodes",
        "  -> r2: node 5 (category = 'Toy' / price < 5), filter category = 'Toy' AND price < 5",
        "  stops before r0: no filter from there ends at a node of the prefix",
        "r2: from r1; prefix read, 2 nodes",
        "  -> r3: node 5 (category = 'Toy' / price < 5), filter category = 'Toy' AND price < 5",
        "r3: from r2; prefix read, 2 nodes",
        "  delivered to cheap: category = 'Toy' AND price < 5",
    ]
    assert "ends here" in run("trace", '{"category": "Book", "price": 3}', *options)


def test_a_trace_shows_what_the_edge_refuses(subscriptions: Path) -> None:
    options = ("--routers", "4", "--shape", "path", "--subscriptions", str(subscriptions), "--json")
    event = {"category": "Toy", "price": 7, "limit": 5, "note": "y"}
    hops = json.loads(run("trace", json.dumps(event), "--at", "r3", *options))
    assert [(hop["router"], hop["by"], hop["delivered"]) for hop in hops] == [("r3", "match", {})]
    assert len(hops[0]["refused"]) == 1
    short = json.loads(run("trace", json.dumps(event), "--depth", "0", *options))
    assert [hop["router"] for hop in short] == ["r0", "r1", "r2", "r3"]
    assert len(short[-1]["refused"]) == 2


def test_a_trace_of_the_workload_and_wrong_input(tmp_path: Path) -> None:
    assert run("trace", '{"a000": 1}', "--filters", "20").startswith("r0: published; matched")
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"subscription": "a", "filter": "x = 1", "where": "r99"}')
    for arguments, problem in (
        (('{"a": 1}', "--at", "r99"), "Expected a router of r0 to r26"),
        (('{"a": 1}', "--subscriptions", str(bad)), "Expected subscription, filter and a router"),
        (("[1]",), "Expected"),
    ):
        done = CliRunner().invoke(app, ["overlay", "trace", *arguments])
        assert done.exit_code != 0
        assert problem in done.output + str(done.exception)


def test_the_picture_is_svg_with_every_router_and_link(tmp_path: Path) -> None:
    path = tmp_path / "overlay.svg"
    run("simulate", "--filters", "40", "--events", "20", "--names", "20", "--kind", "flood", "--picture", str(path))
    tags = [element.tag.rpartition("}")[2] for element in ET.parse(path).iter()]
    assert tags.count("circle") == 27
    assert tags.count("line") == 26
    assert "false" in path.read_text()


@pytest.mark.parametrize(
    "numbers",
    [([1 << 30], []), ([1], [1 << 30]), ([], [7, 8, 9])],
    ids=["ends", "other nodes", "others beyond the tree"],
)
def test_a_prefix_with_numbers_that_are_no_nodes_is_not_read(numbers: tuple[list[int], list[int]]) -> None:
    """A peer may ask for a trace with any bytes; reading beyond the arrays of the tree would end the process."""
    router = PrefixRouter("r")
    router.link("n")
    router.optimize(0.0)
    router.subscribe("s", Interest(Filter.parse("x = 1")), 0.0)
    router.tick(1e9)
    view = router.view(router.version)
    assert view is not None and len(view.snapshot) == 2
    ends, others = (np.array(one, np.int32) for one in numbers)
    sent = Prefix(router.version, view.snapshot.check_bytes, None, ends, others).encode()
    hop, onward = trace_hop(router, "n", Prefix.decode(sent), Event({"x": 1}))
    assert (hop.how, list(hop.delivered), onward.nodes.tolist()) == ("fallback", ["s"], [1])
