"""The schema over HTTP: read, extended while it is used, announced, and the same after a crash."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.broker.inside import event, ids_of, opened, publish, run, subscribe
from tests.broker.processes import PLAIN, BrokerProcess
from whimbrel.broker.requests.context_schema import ANNOUNCEMENT, load_schema
from whimbrel.broker.requests.errors import BrokerError, Conflict, Forbidden, NotFound
from whimbrel.broker.requests.schema_extensions import ExtensionRefused, read_extensions
from whimbrel.broker.requests.subscriptions import read_request
from whimbrel.broker.sequencing.request_group import Published
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.principal import ANYBODY, Principal
from whimbrel.broker.service.schema_fold import SchemaFileChanged
from whimbrel.model.schema import FilterTypeError

SHOP = """
type_attribute = "kinds"
[domains.period]
kind = "enumerated"
values = ["XV", "XVI", "XVII"]
order = [["XV", "XVI", "XVII"]]
[attributes]
"data.price" = "decimal"
"data.period" = "period"
"data.category" = "string"
[types.antiques]
"data.price" = "mandatory"
"data.period" = "mandatory"
[types.furniture]
"data.price" = "optional multiple"
"data.category" = "mandatory"
"""
DEALER = {"rule": "create-attribute", "name": "data.dealer", "domain": "string"}
OF_DEALER = {"rule": "extend-type", "type": "antiques", "attribute": "data.dealer"}


def extensions(*items: dict[str, object]) -> list[Any]:
    return read_extensions(json.dumps({"extensions": items}).encode())


def antique(id: object, **data: object) -> Any:
    return event(id, type="antiques", data={"price": 10, "period": "XVI", **data})


def codes_of(results: list[Published | BrokerError]) -> list[str]:
    return ["taken" if isinstance(one, Published) else one.code for one in results]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.toml"
    path.write_text(SHOP)
    return path


async def announced(broker: Broker, count: int) -> list[tuple[str, str]]:
    """Wait until so many extensions are announced, and return their rules and names."""
    held = await subscribe(broker, f"type = '{ANNOUNCEMENT}'", start="beginning")
    while True:
        found, _ = await broker.runtime.in_thread(broker.messages.read, held, broker.messages.position(held), 100)
        own = [message for message in found if b"whimbrelrule" in message.event]
        if len(own) >= count:
            events = [json.loads(message.event) for message in own]
            return [(one["whimbrelrule"], one["whimbrelname"]) for one in events]
        await broker.subscriptions.delete(held.id, ANYBODY)
        await asyncio.sleep(0.01)
        held = await subscribe(broker, f"type = '{ANNOUNCEMENT}'", start="beginning")


def test_events_and_filters_after_an_extension_use_it(tmp_path: Path, file: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path / "data", schema=str(file)) as broker:
            old = await subscribe(broker, "data.period > 'XV'")
            with pytest.raises(FilterTypeError):
                await subscribe(broker, "data.dealer = 'Ann'")
            assert codes_of(await publish(broker, antique(1), antique(2, dealer="Ann"))) == ["taken", "invalid-event"]
            assert await broker.schemas.extend(extensions(DEALER, OF_DEALER), ANYBODY) == [2, 3]
            new = await subscribe(broker, "data.dealer = 'Ann'")
            assert codes_of(await publish(broker, antique(2, dealer="Ann"), antique(3))) == ["taken", "taken"]
            assert await ids_of(broker, new) == ["2"]
            assert await ids_of(broker, old) == ["1", "2", "3"]
            assert await broker.schemas.extend(extensions(DEALER), ANYBODY) == [None]  # there already
            assert await announced(broker, 2) == [
                ("create-attribute", "data.dealer"),
                ("extend-type", "antiques.data.dealer"),
            ]
        async with opened(tmp_path / "data", schema=str(file)) as broker:
            assert broker.schemas.extended == 2
            assert codes_of(await publish(broker, antique(4, dealer="Ann"))) == ["taken"]
            assert await ids_of(broker, new) == ["2", "4"]
            assert len(await announced(broker, 2)) == 2

    run(work)


def test_an_event_of_several_types_names_them_and_its_own_type_is_one(tmp_path: Path, file: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path / "data", schema=str(file)) as broker:
            both = await subscribe(broker, "kinds CONTAINS 'antiques' AND kinds CONTAINS 'furniture'")
            data = {"price": 10, "period": "XVI", "category": "table"}
            results = await publish(
                broker,
                event("own", type="antiques", kinds="furniture", data=data),
                event("named", type="anything", kinds=["antiques", "furniture"], data=data),
                event("one", type="furniture", data={"category": "table"}),
                event("less", type="antiques", kinds="furniture", data={"category": "table"}),
                event("none", type="anything", data=data),
            )
            assert codes_of(results) == ["taken", "taken", "taken", "invalid-event", "invalid-event"]
            assert await ids_of(broker, both) == ["own", "named"]

    run(work)


def test_a_refused_extension_changes_nothing_and_says_which_rule_it_breaks(tmp_path: Path, file: Path) -> None:
    bad: list[tuple[dict[str, object], str, int]] = [
        ({"rule": "create-domain", "name": "period", "definition": {"kind": "string"}}, "create-domain", 409),
        ({"rule": "create-domain", "name": "d", "definition": {"kind": "colour"}}, "create-domain", 422),
        ({"rule": "create-attribute", "name": "data.price", "domain": "integer"}, "create-attribute", 409),
        ({"rule": "create-attribute", "name": "x", "domain": "none"}, "create-attribute", 422),
        ({"rule": "extend-type", "type": "antiques", "attribute": "data.price"}, "extend-type", 409),
        ({**OF_DEALER, "use": "mandatory"}, "extend-type", 422),
        ({**OF_DEALER, "type": "rugs"}, "extend-type", 422),
        ({"rule": "create-type", "name": "antiques", "attributes": {}}, "create-type", 409),
        ({"rule": "create-type", "name": "rugs", "attributes": {"nothing": "mandatory"}}, "create-type", 422),
    ]

    async def work() -> None:
        async with opened(tmp_path / "data", schema=str(file)) as broker:
            before = broker.schemas.document()
            for extension, rule, status in bad:
                with pytest.raises(ExtensionRefused) as refused:
                    await broker.schemas.extend(extensions(DEALER, extension), ANYBODY)
                assert (refused.value.rule, refused.value.status, refused.value.place) == (rule, status, 1)
            assert broker.schemas.document() == before and broker.end == 0
            limited = Principal("shop", frozenset({"schema"}), rules={"tenant": 7})
            with pytest.raises(Forbidden):
                await broker.schemas.extend(extensions(DEALER), limited)
        async with opened(tmp_path / "other") as broker:
            with pytest.raises(NotFound, match="--schema"):
                await broker.schemas.extend(extensions(DEALER), ANYBODY)

    run(work)


def test_a_schema_does_not_grow_without_end(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whimbrel.broker.service.schema_service.SCHEMA_NAMES", 40)

    async def work() -> None:
        async with opened(tmp_path / "data", schema=str(file)) as broker:
            many = [{"rule": "create-attribute", "name": f"data.a{n}", "domain": "string"} for n in range(40)]
            with pytest.raises(Conflict, match="at most 40 names"):
                await broker.schemas.extend(extensions(*many), ANYBODY)
            assert broker.schemas.extended == 0

    run(work)


def test_a_changed_file_must_contain_the_extensions(tmp_path: Path, file: Path) -> None:
    data = tmp_path / "data"

    async def extend() -> dict[str, object]:
        async with opened(data, schema=str(file)) as broker:
            await broker.schemas.extend(extensions(DEALER, OF_DEALER), ANYBODY)
            return broker.schemas.document()[0]

    whole = run(extend)

    async def start(schema: Path | None) -> dict[str, object]:
        async with opened(data, schema=None if schema is None else str(schema)) as broker:
            return broker.schemas.document()[0]

    assert run(lambda: start(None)) == whole  # without a file the broker goes on with what it has
    for path in data.glob("broker.sqlite*"):  # it is made anew from the log, which has no file
        path.unlink()
    with pytest.raises(SchemaFileChanged, match="because the log has extensions"):
        run(lambda: start(None))
    run(lambda: start(file))
    file.write_text(SHOP.replace("[attributes]", '[attributes]\n"data.colour" = "string"'))
    with pytest.raises(SchemaFileChanged, match=r"create-attribute data\.dealer \(offset 0\)"):
        run(lambda: start(file))
    file.write_text(SHOP.replace("[attributes]", '[attributes]\n"data.dealer" = "integer"'))
    with pytest.raises(SchemaFileChanged, match=r"to stay of domain 'integer'"):
        run(lambda: start(file))
    newer = tmp_path / "newer.json"
    whole["attributes"]["data.colour"] = "string"  # type: ignore[index]
    newer.write_text(json.dumps(whole))
    assert "data.colour" in run(lambda: start(newer))["attributes"]  # type: ignore[operator]
    assert "data.dealer" in run(lambda: start(newer))["attributes"]  # type: ignore[operator]


def test_a_saved_index_takes_the_extended_schema_over(tmp_path: Path, file: Path) -> None:
    data = tmp_path / "data"

    async def work() -> None:
        async with opened(data, schema=str(file)) as broker:
            held = await subscribe(broker, "data.period > 'XV'")
        async with opened(data, schema=str(file)) as broker:
            assert broker.index.facts["offset"] == 1  # it was opened, not made anew
            await broker.schemas.extend(extensions(DEALER, OF_DEALER), ANYBODY)
        async with opened(data, schema=str(file)) as broker:
            assert broker.index.facts["offset"] == 1
            assert codes_of(await publish(broker, antique(1, dealer="Ann"))) == ["taken"]
            assert await ids_of(broker, held) == ["1"]

    run(work)


@pytest.fixture
def shop(tmp_path: Path, file: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", schema=str(file)) as process:
        yield process


def test_over_http(shop: BrokerProcess) -> None:
    with httpx.Client(base_url=shop.url, timeout=60, **PLAIN) as http:
        found = http.get("/schema")
        assert found.json()["types"]["antiques"]["data.price"] == "mandatory"
        assert http.get("/schema", headers={"if-none-match": found.headers["etag"]}).status_code == 304
        view = http.get("/schema/views", params={"types": "antiques,furniture"}).json()
        own = {one["name"]: (one["mandatory"], one["multiple"]) for one in view["attributes"] if "data." in one["name"]}
        assert own == {"data.price": (True, True), "data.period": (True, False), "data.category": (True, False)}
        assert http.get("/schema/views", params={"types": "rugs"}).json()["error"]["code"] == "unknown-type"
        assert http.get("/schema/views").status_code == 400
        answer = http.post("/schema/extensions", json={"extensions": [DEALER, OF_DEALER]})
        assert answer.json() == {"offsets": [0, 1], "version": 2}
        assert http.get("/schema", headers={"if-none-match": found.headers["etag"]}).status_code == 200
        refused = http.post("/schema/extensions", json={"extensions": [{**DEALER, "domain": "integer"}]})
        assert refused.status_code == 409 and refused.json()["error"]["rule"] == "create-attribute"
        assert http.post("/schema/extensions", json={"extensions": []}).status_code == 422
        assert "whimbrel_schema_extensions 2.0" in http.get("/metrics").text


def test_only_the_scope_schema_extends(tmp_path: Path, file: Path) -> None:
    async def tokens() -> dict[str, str]:
        async with opened(tmp_path / "data", schema=str(file)) as broker:
            return {name: await broker.tokens.create(name, [name]) for name in ("publish", "schema", "admin", "peer")}

    made = run(tokens)
    with (
        BrokerProcess(tmp_path / "data", schema=str(file)) as process,
        httpx.Client(base_url=process.url, timeout=60, **PLAIN) as http,
    ):
        for name, token in made.items():
            headers = {"authorization": f"Bearer {token}"}
            extended = http.post("/schema/extensions", json={"extensions": [DEALER]}, headers=headers).status_code
            read = http.get("/schema", headers=headers).status_code
            expected = {"publish": (403, 200), "peer": (403, 403)}.get(name, (200, 200))
            assert (extended, read) == expected, name


def test_extensions_under_load_survive_kills(tmp_path: Path, file: Path) -> None:
    """What was answered is there after SIGKILL, in the log's order: events after an extension may use it."""
    process = BrokerProcess(tmp_path / "data", schema=str(file)).start()
    extended: list[tuple[int, str]] = []
    taken: list[tuple[int, str]] = []
    problems: list[object] = []
    stop = threading.Event()

    def work(number: int) -> None:
        count = 0
        with httpx.Client(base_url=process.url, timeout=20, **PLAIN) as http:
            while not stop.is_set():
                name = f"w{number}n{count}"
                body = {"extensions": [{**DEALER, "name": f"data.{name}"}, {**OF_DEALER, "attribute": f"data.{name}"}]}
                item = {"specversion": "1.0", "id": name, "source": "s", "type": "antiques"}
                item |= {"data": {"price": 1, "period": "XV", name: "x"}}  # type: ignore[dict-item]
                try:
                    answer = http.post("/schema/extensions", json=body)
                    if answer.status_code == 503:
                        continue
                    first = answer.json()["offsets"][1]
                    if first is not None:
                        extended.append((first, name))
                    kind = {"content-type": "application/cloudevents+json"}
                    answer = http.post("/events", content=json.dumps(item), headers=kind)
                    if answer.status_code == 503:
                        continue
                    (result,) = answer.json()["results"]
                    if "offset" not in result:
                        problems.append(result)
                    taken.append((result["offset"], name))
                    count += 1
                except httpx.TransportError:
                    stop.wait(0.05)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            stop.wait(0.4)
            process.kill()
            process.start()
        stop.wait(0.4)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    try:
        with httpx.Client(base_url=process.url, timeout=20, **PLAIN) as http:
            schema = http.get("/schema").json()
            told = http.post("/subscriptions", json={"types": [ANNOUNCEMENT], "start": "beginning"}).json()["id"]
            announced_offsets: set[int] = set()
            while len(announced_offsets) < schema["version"]:
                after = "-1"
                while found := http.get(f"/subscriptions/{told}/messages?after={after}&limit=1000").json()["messages"]:
                    announced_offsets |= {one["event"]["whimbreloffset"] for one in found}
                    after = found[-1]["cursor"]
    finally:
        process.kill()
    assert problems == [] and taken and extended
    by_name = {name: offset for offset, name in extended}
    for offset, name in taken:
        assert f"data.{name}" in schema["types"]["antiques"]
        assert by_name.get(name, -1) < offset
    assert {offset for offset, _ in extended} <= announced_offsets


def test_the_context_of_cloud_events_belongs_to_every_type(file: Path) -> None:
    schema = load_schema(file)
    assert schema.own_type_attribute == "type"
    assert {str(uses["traceparent"]) for uses in schema.types.values()} == {"optional"}


def test_subscriptions_on_publications_are_not_read_by_the_schema(tmp_path: Path, file: Path) -> None:
    """Filters on publications name attributes that the schema of events need not have."""

    async def work() -> None:
        async with opened(tmp_path / "data", schema=str(file)) as broker:
            await subscribe(broker, "x < 5", on="publications")
            await subscribe(broker, "data.category RLIKE 'a.c'")  # so that what all cost together is added up

    run(work)
    with BrokerProcess(tmp_path / "data", schema=str(file)) as process, httpx.Client(base_url=process.url) as http:
        (held,) = http.get("/subscriptions", params={"contains": "x <"}).json()["subscriptions"]
        found = http.post(f"/subscriptions/{held['id']}/explain", json={"event": {"x": 3}})
        assert found.status_code == 200 and found.json()["matched"]
        assert http.get("/subscriptions/lint").json()["checked"] == 2


def test_rules_that_do_not_fit_the_schema_change_nothing(tmp_path: Path, file: Path) -> None:
    """Neither the filters that would fit: all of a token's subscriptions follow its rules, or none."""

    async def work() -> None:
        async with opened(tmp_path / "data", schema=str(file)) as broker:
            reader = broker.tokens.authenticate(await broker.tokens.create("reader", ["subscribe"]))
            for id, asked in (("a", {"on": "publications", "filter": "x < 5"}), ("b", {"filter": "data.price < 5"})):
                body = json.dumps(asked).encode()
                await broker.subscriptions.create((read_request(body), body), reader, id)
            with pytest.raises(FilterTypeError):
                await broker.tokens.change("reader", ["subscribe"], "", {"nowhere": 1})
            assert broker.tokens.stored["reader"].rules == "{}"
            for id in ("a", "b"):
                assert broker._registry.held(id, reader) == broker.subscriptions.find(id, reader)
            await broker.tokens.change("reader", ["subscribe"], "", {"data.category": "art"})
            assert broker.subscriptions.find("b", reader).text == "data.category = 'art' AND data.price < 5"

    run(work)
