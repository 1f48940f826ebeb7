"""The engine outside of the broker: events wait for their match lists, and every range is taken once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest

from tests.broker.plain_engine import PlainEngine
from tests.broker.processes import PLAIN, BrokerProcess
from whimbrel.client import Client, Refused
from whimbrel.client.errors import ClientError
from whimbrel.log import match_list
from whimbrel.log.match_commit import MEDIA_TYPE, MatchCommit, encode
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter


@pytest.fixture(scope="module")
def deferring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("deferring"), engine="spark", spark_job=False) as process:
        yield process
        assert process.stop() == 0


@pytest.fixture
def client(deferring: BrokerProcess) -> Iterator[Client]:
    with Client(deferring.url) as client:
        yield client


@pytest.fixture
def engine(deferring: BrokerProcess) -> Iterator[PlainEngine]:
    with PlainEngine(deferring.url) as engine:
        yield engine


def offsets_of(client: Client, id: str) -> list[int]:
    found: list[int] = []
    while page := client.pull(id, after=found[-1] if found else None, limit=1000):
        found += [message.offset for message in page]
    return found


def test_events_wait_for_their_match_lists(client: Client, engine: PlainEngine) -> None:
    engine.run()
    id = client.create("data.n < 5")["id"]
    first, second = (result.offset for result in client.publish([{"n": 1}, {"n": 7}]))
    status = engine.link.status()
    assert (status.watermark, status.until) == (first, second + 1)
    assert client.pull(id) == [] and client.read(id)["lag"] == 0
    assert engine.run() == 1
    assert offsets_of(client, id) == [first] and client.read(id)["lag"] == 1
    status = engine.link.status()
    assert status.watermark == status.until == status.end


def test_a_stream_and_a_pull_that_wait_are_woken(client: Client, engine: PlainEngine, deferring: BrokerProcess) -> None:
    engine.run()
    id, other = client.create("data.n = 1")["id"], client.create("data.n = 1")["id"]
    got: list[int] = []
    offsets: list[int] = []

    def follow() -> None:
        with Client(deferring.url) as mine:
            for message in mine.subscribe(id=id):
                got.append(message.offset)
                if message.offset == offsets[-1] and len(offsets) == 2:
                    return

    def pull() -> None:
        with Client(deferring.url) as mine:
            got.append(mine.pull(other, wait=60)[0].offset)

    threads = [threading.Thread(target=work, daemon=True) for work in (follow, pull)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        (result,) = client.publish([{"n": 1}])
        assert result.offset is not None
        offsets.append(result.offset)
        engine.run()
    for thread in threads:
        thread.join(60)
    assert sorted(got) == sorted([*offsets, offsets[0]])


def test_an_ephemeral_stream_is_matched_at_once(client: Client, deferring: BrokerProcess) -> None:
    found: list[Any] = []
    opened = threading.Event()

    def follow() -> None:
        with httpx.stream("GET", f"{deferring.url}/stream?filter=data.n=77", timeout=60, **PLAIN) as answer:
            for line in answer.iter_lines():
                opened.set()
                if line.startswith("data: "):
                    found.append(msgspec.json.decode(line[6:])["data"])
                    return

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    assert opened.wait(30)
    client.publish([{"n": 76}, {"n": 77}])
    thread.join(60)
    assert found == [{"n": 77}]


def test_what_inline_refuses_is_refused(client: Client, tmp_path: Path) -> None:
    """Events are checked when they come, whoever matches them later."""
    bad = [
        b'{"specversion":"1.0","id":"1","source":"s","type":"t","data":{"a":1,"a":2}}',
        b'{"specversion":"1.0","id":"2","source":"s","type":"t","data":' + b'{"a":' * 70 + b"1" + b"}" * 71,
        b'{"specversion":"1.0","id":"3","source":"s","type":"t","data":' + b"[" * 70 + b"]" * 71,
        b'{"specversion":"1.0","id":"4","source":"s","type":"t","data":1e999}',
        b'{"specversion":"1.0","id":"5","source":"s","type":"t","data":"\\ud800"}',
        b'{"specversion":"1.0","id":"6","source":"s","type":"t","data":' + b"9" * 400 + b"}",
    ]

    def refused(url: str) -> list[str]:
        found = []
        for event in bad:
            headers = {"content-type": "application/cloudevents+json"}
            answer = httpx.post(f"{url}/events", content=event, headers=headers, **PLAIN, timeout=60)
            found.append(answer.json().get("results", [answer.json()])[0].get("error", {}).get("message", ""))
        return found

    with BrokerProcess(tmp_path) as inline, Client(inline.url) as other:
        other.create("data.n = 1")
        said = refused(inline.url)
    assert refused(client.url) == said and sum(map(bool, said)) >= 3


def raw_commit(url: str, content: bytes, token: str | None = None) -> httpx.Response:
    headers = {"content-type": MEDIA_TYPE} | ({} if token is None else {"authorization": f"Bearer {token}"})
    return httpx.post(f"{url}/matches/commits", content=content, headers=headers, timeout=60, **PLAIN)


def test_a_repeat_is_recognised_and_another_range_refused(client: Client, engine: PlainEngine) -> None:
    engine.run()
    id = client.create("data.n = 3")["id"]
    client.publish([{"n": 3}, {"n": 3}])
    commit = engine.next_commit()
    assert commit is not None
    first = raw_commit(client.url, encode(commit))
    assert first.status_code == 200 and not first.json()["repeated"]
    again = raw_commit(client.url, encode(commit))
    assert again.status_code == 200 and again.json()["repeated"]
    assert len(offsets_of(client, id)) == 2
    client.publish([{"n": 3}, {"n": 3}])
    status = engine.link.status()
    for start, end in (
        (commit.first, status.until),  # overlaps what was taken
        (status.watermark + 1, status.until),  # a gap
        (commit.first, commit.first + 1),  # inside of what was taken
    ):
        refused = raw_commit(client.url, encode(MatchCommit(status.log, start, end, b"", [])))
        assert refused.status_code == 409 and refused.json()["watermark"] == status.watermark, (start, end)
    assert engine.link.status() == status
    engine.run()
    assert len(offsets_of(client, id)) == 4


def test_bad_commits_are_refused_and_change_nothing(client: Client, engine: PlainEngine) -> None:
    engine.run()
    early = client.create("TRUE")
    offsets = [result.offset for result in client.publish([{"n": 1}, {"n": 2}])]
    late = client.create("TRUE")
    status = engine.link.status()
    good = engine.next_commit(status)
    assert good is not None

    def changed(**fields: Any) -> bytes:
        return encode(msgspec.structs.replace(good, **fields))

    def listed(offset: int | None, *numbers: int) -> bytes:
        places = np.array([offset], np.int64)
        lists = [match_list.encode(numbers)]
        return encode(MatchCommit.of(status.log, good.first, good.until, places, lists))

    for content in (
        b"",
        b"{}",
        encode(good)[:-1],
        encode(good) + b"\0",
        changed(log="another"),
        changed(until=status.end + 1),
        changed(until=good.first),
        changed(first=-1),
        changed(offsets=b""),
        changed(offsets=b"\xff"),
        changed(lists=[*good.lists[:-1], b"\x80"]),
        changed(lists=[*good.lists[:-1], b""]),
        listed(offsets[0], 10**12),  # no such version
        listed(offsets[0], offsets[0]),  # an event is none
        listed(offsets[0], int(late["version"])),  # a version that began later
        listed(status.end - 1, int(early["version"])),  # no event
        listed(good.first - 1, int(early["version"])),  # below the range
    ):
        refused = raw_commit(client.url, content)
        assert refused.status_code in (409, 422), (refused.status_code, refused.text)
        assert engine.link.status() == status
    wrong_kind = httpx.post(f"{client.url}/matches/commits", content=encode(good), **PLAIN)
    assert wrong_kind.status_code == 415
    assert offsets_of(client, early["id"]) == []
    assert engine.run() == 1
    assert offsets_of(client, early["id"]) == offsets and offsets_of(client, late["id"]) == []


def test_only_the_scope_match_may_do_this(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path, engine="spark", spark_job=False)
    with process, httpx.Client(base_url=process.url, **PLAIN, timeout=60) as http:
        tokens: dict[str, str] = {}
        for name, scopes in (("root", ["admin"]), ("user", ["publish", "subscribe"]), ("spark", ["match"])):
            headers = {"authorization": f"Bearer {tokens['root']}"} if tokens else {}
            made = http.post("/tokens", json={"name": name, "scopes": scopes}, headers=headers)
            tokens[name] = made.json()["token"]
        for path in ("/matches", "/matches/settings", "/log?from=0", "/subscriptions/export?from=0"):
            for name, status in (("user", 403), ("spark", 200), ("root", 200)):
                answer = http.get(path, headers={"authorization": f"Bearer {tokens[name]}"})
                assert answer.status_code == status, (path, name, answer.text)
            assert http.get(path).status_code == 401
        assert raw_commit(process.url, b"", tokens["user"]).status_code == 403
        assert raw_commit(process.url, b"", tokens["spark"]).status_code == 422
        rules = {"name": "both", "scopes": ["match"], "rules": {"tenant": 7}}
        refused = http.post("/tokens", json=rules, headers={"authorization": f"Bearer {tokens['root']}"})
        assert refused.status_code == 422


def test_versions_of_a_range_with_those_that_ended(client: Client, engine: PlainEngine) -> None:
    engine.run()
    made = client.create("data.n = 1")
    one = int(made["version"])
    two = int(client.replace(made["id"], "data.n = 2")["version"])
    client.delete(made["id"])
    end = engine.link.status().end
    found = {version.number: version for version in engine.link.versions(one, end, one)}
    assert (found[one].filter, found[one].start, found[one].until) == ("data.n = 1", one, two)
    assert (found[two].filter, found[two].start, found[two].until) == ("data.n = 2", two, end - 1)
    assert one not in {version.number for version in engine.link.versions(two, end, 0)}
    assert two not in {version.number for version in engine.link.versions(one, two, 0)}
    with pytest.raises(Refused, match="ends at"):
        engine.link.versions(0, end + 1, 0)


def test_the_log_comes_in_pages(client: Client, engine: PlainEngine) -> None:
    offsets = [result.offset for result in client.publish([{"n": n, "text": "x" * 1_000} for n in range(5_000)])]
    assert offsets[0] is not None and offsets[-1] is not None
    pages = list(engine.link.chunks(offsets[0], offsets[-1] + 1))
    assert len(pages) > 1 and [row[0] for page in pages for row in page] == offsets
    engine.run()


def run_history(process: BrokerProcess, seed: int, engine: PlainEngine | None) -> dict[int, list[int]]:
    """Publish, subscribe, replace and delete in an order that the seed decides; what every subscription got."""
    chance = random.Random(seed)
    ids: list[str] = []
    with Client(process.url) as client:
        for step in range(40):
            kind = chance.choice(("publish", "publish", "create", "replace", "delete"))
            number = chance.randrange(10)
            if kind == "create" or len(ids) < 3:
                ids.append(client.create(f"data.n < {number} OR data.tags CONTAINS 'a'")["id"])
            elif kind == "publish":
                tags = chance.sample(["a", "b", "c"], chance.randrange(3))
                client.publish([{"n": (number + at) % 10, "tags": tags} for at in range(chance.randrange(1, 6))])
            elif kind == "replace":
                client.replace(chance.choice(ids[3:] or ids), f"data.n >= {number}")
            elif len(ids) > 6:
                client.delete(ids.pop(chance.randrange(3, len(ids))))
            if engine is not None and step % 7 == 0 and (commit := engine.next_commit()) is not None:
                engine.link.commit(commit)
        if engine is not None:
            engine.run()
        return {place: offsets_of(client, id) for place, id in enumerate(ids)}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 10))])
def test_both_engines_give_the_same_while_subscriptions_change(tmp_path: Path, seed: int) -> None:
    with BrokerProcess(tmp_path / "inline") as process:
        inline = run_history(process, seed, None)
    process = BrokerProcess(tmp_path / "spark", engine="spark", spark_job=False)
    with process, PlainEngine(process.url, most=17) as engine:
        deferred = run_history(process, seed, engine)
    # Commits take offsets of their own, so events are told apart by their order.
    assert by_rank(inline) == by_rank(deferred)
    assert sum(map(len, inline.values())) > 30


def by_rank(found: dict[int, list[int]]) -> list[list[int]]:
    ranks = {offset: rank for rank, offset in enumerate(sorted(set(chain(*found.values()))))}
    return [[ranks[offset] for offset in offsets] for offsets in found.values()]


def test_switching_engines_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """From inline to spark, with events that wait and versions that ended meanwhile, and back."""
    process = BrokerProcess(tmp_path)
    published: dict[int, dict[str, int]] = {}
    with process, Client(process.url) as client:
        kept, replaced, ended = (client.create("data.n < 5")["id"] for _ in range(3))
        versions = [(int(client.read(replaced)["version"]), "data.n < 5")]
        publish(client, published)
    process.settings |= {"engine": "spark", "spark_job": False}
    with process, Client(process.url) as client:
        publish(client, published)
        versions.append((int(client.replace(replaced, "data.n >= 5")["version"]), "data.n >= 5"))
        client.delete(ended)
        publish(client, published)
        with PlainEngine(process.url, most=13) as engine:
            commit = engine.next_commit()
            assert commit is not None and engine.link.commit(commit) is not None
    process.settings["engine"] = "inline"
    for _ in range(2):  # the second start finds nothing that waits
        with process, Client(process.url) as client, PlainEngine(process.url) as engine:
            status = engine.link.status()
            assert status.watermark == status.until == status.end
            assert offsets_of(client, kept) == [offset for offset, data in published.items() if data["n"] < 5]
            wanted = [offset for offset, data in published.items() if matches(versions, offset, data)]
            assert offsets_of(client, replaced) == wanted
            publish(client, published)


def publish(client: Client, published: dict[int, dict[str, int]]) -> None:
    events = [{"n": n} for n in range(10)]
    for event, result in zip(events, client.publish(events), strict=True):
        assert result.offset is not None
        published[result.offset] = event


def matches(versions: list[tuple[int, str]], offset: int, data: dict[str, int]) -> bool:
    text = [text for start, text in versions if start < offset][-1]
    return Filter.parse(text).matches(Event.of({"data": data}))


def test_a_broker_that_is_killed_between_commits_agrees_with_itself(tmp_path: Path) -> None:
    """Watermark and lists are those of the commits that are in the log, whichever they are."""
    process = BrokerProcess(tmp_path, engine="spark", spark_job=False).start()
    stop = threading.Event()
    try:
        with Client(process.url, attempts=1000) as client:
            id = client.create("data.n < 5")["id"]
            offsets: dict[int, int] = {}

            def publishing() -> None:
                with Client(process.url, attempts=1000, timeout=10) as mine:
                    n = 0
                    while not stop.is_set():
                        events = [{"n": (n + at) % 10} for at in range(7)]
                        n += 7
                        for event, result in zip(events, mine.publish(events), strict=True):
                            assert result.offset is not None
                            offsets[result.offset] = event["n"]

            def committing() -> None:
                while not stop.is_set():
                    with PlainEngine(process.url, most=9) as engine, suppress(ClientError):
                        engine.run()  # while the broker is down it asks again where the watermark is

            threads = [threading.Thread(target=work, daemon=True) for work in (publishing, committing)]
            for thread in threads:
                thread.start()
            chance = random.Random(3)
            for kill in range(2):
                while len(offsets) < 20 * (kill + 1) and not stop.wait(0.01):
                    assert all(thread.is_alive() for thread in threads)
                time.sleep(chance.uniform(0.0, 0.2))
                process.kill()
                process.start()
            stop.set()
            for thread in threads:
                thread.join(60)
            process.kill()
            process.start()
            with PlainEngine(process.url) as engine:
                engine.run()
            assert offsets_of(client, id) == sorted(offset for offset, n in offsets.items() if n < 5)
    finally:
        stop.set()
        process.kill()
