"""The client against a real broker: both mirrors, batching, reconnecting."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.broker.processes import BrokerProcess, free_port
from whimbrel.client import (
    AsyncClient,
    BadName,
    Client,
    Message,
    Publisher,
    PublisherClosed,
    PublishResult,
    Refused,
    StreamEnded,
    ThreadedPublisher,
    Unreachable,
    wire,
)
from whimbrel.client.following import Following
from whimbrel.client.wire import Event


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("client")) as process:
        yield process


def test_publish_pull_and_acknowledge(broker: BrokerProcess) -> None:
    with Client(broker.url) as client:
        id = client.create("data.price < 5", config={"who": "me"})["id"]
        results = client.publish([{"price": 3}, {"price": 9}, {"price": 4}])
        assert [result.error for result in results] == [None] * 3
        first, second = client.pull(id)
        assert (first.data, second.data) == ({"price": 3}, {"price": 4})
        client.acknowledge(id, first.cursor)
        assert client.pull(id) == [second]
        assert client.publish({"price": 1})[0].offset is not None
        client.delete(id)
        with pytest.raises(Refused) as refused:
            client.pull(id)
        assert (refused.value.status, refused.value.code) == (404, "not-found")
        with pytest.raises(Refused, match="invalid-filter"):
            client.create("data.price <")
        bad = client.publish([{"specversion": "9", "id": "1", "source": "s", "type": "t"}])
        assert bad[0].error is not None and bad[0].error["code"] == "invalid-event"


def test_events_come_as_they_are_published(broker: BrokerProcess) -> None:
    async def work() -> None:
        async with AsyncClient(broker.url) as client:
            got: asyncio.Queue[Message] = asyncio.Queue()
            opened = asyncio.Event()

            async def listen() -> None:
                async for message in client.subscribe("data.price < 5 OR data.hello IS NOT MISSING"):
                    opened.set()
                    await got.put(message)

            listening = asyncio.create_task(listen())
            async with asyncio.timeout(30):
                while not opened.is_set():
                    await client.publish({"hello": 1})
                    await asyncio.sleep(0.02)
                async with client.publisher(batch=10, pending=20) as publisher:
                    futures = [await publisher.send({"price": n}) for n in range(50)]
                offsets = [(await future).offset for future in futures]
                assert offsets == sorted(offsets, key=lambda offset: offset or 0) and len(set(offsets)) == 50
                prices = []
                while len(prices) < 5:
                    data = (await got.get()).data
                    prices += [data["price"]] if "price" in data else []
            assert prices == [0, 1, 2, 3, 4]
            listening.cancel()

    asyncio.run(work())


def test_many_streams_leave_room_for_calls(broker: BrokerProcess) -> None:
    async def work() -> None:
        async with AsyncClient(broker.url, attempts=1) as client:
            streams = [client.subscribe("data.many = 1") for _ in range(110)]
            waiting = [asyncio.create_task(anext(stream)) for stream in streams]  # type: ignore[arg-type]
            while not all(task.done() for task in waiting):  # it publishes until all of them listen
                await client.publish({"many": 1})
                await asyncio.sleep(0.02)
            for task, stream in zip(waiting, streams, strict=True):
                assert (await task).data == {"many": 1}
                await stream.aclose()

    asyncio.run(work())


def test_a_stream_resumes_after_a_crash(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path).start()
    try:
        with Client(process.url) as client:
            id = client.create("TRUE")["id"]
            client.publish([{"n": n} for n in range(3)])
            seen: list[Any] = []
            done = threading.Event()

            def listen() -> None:
                with Client(process.url) as listener:
                    for message in listener.subscribe(id=id):
                        seen.append(message.data["n"])
                        if len(seen) == 6:
                            done.set()
                            return

            thread = threading.Thread(target=listen)
            thread.start()
            client.publish({"n": 3})
            process.kill()
            with Client(process.url, attempts=100) as patient:  # a start takes as long as the machine is busy
                retried = threading.Thread(target=lambda: patient.publish([{"n": 4}, {"n": 5}]))
                retried.start()  # there is nobody to take it yet
                process.start()
                retried.join()
            assert done.wait(30)
            thread.join()
            assert seen == [0, 1, 2, 3, 4, 5]
    finally:
        process.kill()


def test_a_broker_that_is_not_there(broker: BrokerProcess) -> None:
    with Client(f"http://127.0.0.1:{free_port()}", attempts=2) as client, pytest.raises(Unreachable) as caught:
        client.publish({"a": 1})
    assert caught.value.attempts == 2


def test_both_clients_have_the_same_calls() -> None:
    def calls(kind: type) -> dict[str, list[str]]:
        return {
            name: [] if isinstance(call, property) else list(inspect.signature(call).parameters)
            for name, call in vars(kind).items()
            if not name.startswith("_") and name not in ("close", "aclose", "download")  # backups are not concurrent
        }

    assert calls(Client) == calls(AsyncClient)
    assert list(inspect.signature(Client).parameters) == list(inspect.signature(AsyncClient).parameters)


def test_the_life_of_subscriptions(broker: BrokerProcess) -> None:
    with Client(broker.url) as client:
        made = client.import_many([{"id": f"life-{n}", "filter": f"data.life = {n}"} for n in range(3)] + [{"id": "?"}])
        assert [one.get("id") for one in made] == ["life-0", "life-1", "life-2", None]
        assert [one["id"] for one in client.list(contains="data.life = ")] == ["life-0", "life-1", "life-2"]
        held = client.read("life-1")
        newer = client.replace("life-1", "data.life > 7", version=held["version"])
        assert newer["filter"] == "data.life > 7"
        with pytest.raises(Refused, match="412"):
            client.replace("life-1", "TRUE", version=held["version"])
        assert client.validate("data.life <")["valid"] is False
        (result,) = client.publish({"life": 9})
        assert result.offset is not None
        assert client.explain(result.offset, id="life-1")["matched"] is True
        assert client.explain({"data": {"life": 5}}, "data.life = 6")["matched"] is False
        assert client.near_misses({"data": {"life": 3}})[0]["failed"] == 1
        assert client.preview("data.life = 9")["matched"] == 1
        with pytest.raises(Refused, match="404"):
            client.read("../tokens")
        for n in range(3):
            client.delete(f"life-{n}")


def test_threads_publish_in_batches(broker: BrokerProcess) -> None:
    with Client(broker.url) as client:
        sizes: list[int] = []
        publish = client.publish
        client.publish = lambda events: (sizes.append(len(events)), publish(events))[1]  # type: ignore[method-assign]
        with client.publisher(batch=10, linger=0.5, pending=15) as publisher:
            futures = [publisher.send({"n": n}) for n in range(45)]
        offsets = [future.result().offset for future in futures]
        assert offsets == sorted(offsets, key=lambda offset: offset or 0) and len(set(offsets)) == 45
        assert max(sizes) == 10 and sum(sizes) == 45
        # More than a request may hold is sent in several.
        assert len(publish([{"pad": "x" * 500_000}] * 40)) == 40


def test_what_must_not_be_sent_twice_is_not_sent_again_after_a_gateway_gave_up() -> None:
    class Gateway(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_response(504 if len(asked) % 2 else 200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    asked: list[str] = []
    server = HTTPServer(("127.0.0.1", 0), Gateway)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with Client(f"http://127.0.0.1:{server.server_port}") as client:
        with pytest.raises(Refused) as refused:
            client.create("TRUE")
        assert refused.value.status == 504 and len(asked) == 1
        asked.clear()
        client.acknowledge("a", 1)
        assert len(asked) == 2
    server.shutdown()
    server.server_close()


def test_an_event_that_waits_cannot_be_called_back() -> None:
    def publish(events: list[Event]) -> list[PublishResult]:
        return [PublishResult(event["n"]) for event in events]

    with ThreadedPublisher(publish, 10, 0.05, 5) as publisher:
        futures = [publisher.send({"n": n}) for n in range(3)]
        assert not any(future.cancel() for future in futures)
        futures += [publisher.send({"n": n}) for n in range(3, 20)]
    assert [future.result(10).offset for future in futures] == list(range(20))


def test_a_client_does_not_pause_after_its_last_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[int] = []
    monkeypatch.setattr(wire, "pause", lambda attempt, _: pauses.append(attempt) or 0.0)
    with Client(f"http://127.0.0.1:{free_port()}", attempts=3) as client:
        with pytest.raises(Unreachable) as caught:
            client.read("a")
        assert caught.value.attempts == 3 and pauses == [0, 1]


def test_an_event_that_is_no_json_fails_alone(broker: BrokerProcess) -> None:
    bad: list[dict[str, object]] = [{"n": object()}, {"n": "\ud800"}]
    with Client(broker.url) as client, client.publisher(batch=10, linger=0.2) as publisher:
        first = publisher.send({"n": 1})
        for one in bad:
            with pytest.raises((TypeError, UnicodeEncodeError)):
                publisher.send(one)
        assert first.result(10).offset is not None

    async def main() -> None:
        async with AsyncClient(broker.url) as client, client.publisher(batch=10, linger=0.2) as publisher:
            first = await publisher.send({"n": 1})
            for one in bad:
                with pytest.raises((TypeError, UnicodeEncodeError)):
                    await publisher.send(one)
            assert (await first).offset is not None

    asyncio.run(main())


def test_a_closed_publisher_refuses_events_instead_of_keeping_them() -> None:
    """Also those that wait for their turn when it closes."""
    answering = threading.Event()

    def publish(events: list[Event]) -> list[PublishResult]:
        answering.wait(10)
        return [PublishResult(event["n"]) for event in events]

    late: list[type[BaseException]] = []

    def send_late() -> None:
        try:
            publisher.send({"n": 2})
        except PublisherClosed as error:
            late.append(type(error))

    publisher = ThreadedPublisher(publish, 1, 0.0, 1)
    with pytest.raises(PublisherClosed):
        publisher.send({"n": 0})
    publisher.__enter__()
    first = publisher.send({"n": 1})
    waiting, closing = threading.Thread(target=send_late), threading.Thread(target=publisher.__exit__)
    waiting.start()
    closing.start()
    waiting.join(10)
    answering.set()
    closing.join(10)
    assert first.result(10).offset == 1 and late == [PublisherClosed]
    with pytest.raises(PublisherClosed):
        publisher.send({"n": 3})


def test_a_closed_publisher_of_a_loop_refuses_events_too() -> None:
    async def run() -> None:
        answering = asyncio.Event()

        async def publish(events: list[Event]) -> list[PublishResult]:
            await answering.wait()
            return [PublishResult(event["n"]) for event in events]

        publisher = Publisher(publish, 1, 0.0, 1)
        async with publisher:
            first = await publisher.send({"n": 1})
            waiting = asyncio.create_task(publisher.send({"n": 2}))
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_soon(answering.set)
        assert (await first).offset == 1
        for late in (waiting, publisher.send({"n": 3})):
            with pytest.raises(PublisherClosed):
                await late

    asyncio.run(asyncio.wait_for(run(), 20))


def test_a_pull_may_take_longer_than_other_calls(broker: BrokerProcess) -> None:
    with Client(broker.url) as client, Client(broker.url, timeout=1.0, attempts=1) as hasty:
        id = client.create("FALSE")["id"]
        assert hasty.pull(id, wait=1.5) == []
        client.delete(id)


def test_a_stream_that_ends_for_good_says_why(broker: BrokerProcess) -> None:
    with Client(broker.url) as client, Client(broker.url) as other:
        id = client.create("TRUE", start="beginning")["id"]
        client.publish({"n": 1})
        first, second = client.subscribe(id=id), other.subscribe(id=id)
        next(first), next(second)
        with pytest.raises(StreamEnded) as caught:
            for _ in first:
                pass
        assert caught.value.reason == "replaced"
        client.delete(id)
        with pytest.raises(StreamEnded, match="deleted"):
            for _ in second:
                pass
        with pytest.raises(Refused, match="404"):
            next(client.subscribe(id=id))
        with pytest.raises(ValueError, match="either"):
            next(client.subscribe())


def test_a_stream_tells_once_that_a_broker_cannot_be_reached(caplog: pytest.LogCaptureFixture) -> None:
    following = Following("a = 1", None, None, {})
    for _ in range(3):
        following.failed("http://x", ConnectionRefusedError("refused"))
        following.pause()
    assert caplog.messages == ["http://x cannot be reached (refused): trying again until it can"]


def test_publications_and_spaces_in_both_clients(broker: BrokerProcess) -> None:
    with Client(broker.url) as client:
        near = client.create("x < 5", on="publications", leave=True)["id"]
        assert client.publications.put("a", {"x": 1}) < client.publications.patch("a", {"x": 9})
        done = client.publications.update([{"key": "b", "state": {"x": 2}}, {"key": "c", "delete": True}, {"key": "b"}])
        assert [result.error and result.error["code"] for result in done] == [None, "not-found", "invalid-publication"]
        assert [one["key"] for one in client.publications.list()] == ["a", "b"]
        client.publications.delete("b")
        assert [message.event["type"] for message in client.pull(near)] == [
            f"whimbrel.{kind}" for kind in ("enter", "leave", "enter", "delete")
        ]
        with pytest.raises(Refused, match="not-found"):
            client.publications.get("b")

    async def work() -> None:
        async with AsyncClient(broker.url) as client:
            assert (await client.publications.get("a"))["state"] == {"x": 9}
            assert [one["key"] async for one in client.publications.list()] == ["a"]
            (done,) = await client.publications.update([{"key": "a", "patch": {"x": None, "y": 1}}])
            assert done.error is None
            town = client.space("town")
            await town.define({"x": "number"})
            await town.put("t", [{"x": 3}])
            made = await town.subscribe("zone", [{"x": "[0, 5]"}], leave=True)
            assert made["on"] == "spaces/town"
            await town.patch("t", {"x": 7})
            await town.delete("t")
            cursors = [(message.cursor, message.event["type"]) for message in await client.pull("zone")]
            assert [kind for _, kind in cursors] == ["whimbrel.enter", "whimbrel.leave"]
            assert cursors[0][0].endswith(".0")
            await client.acknowledge("zone", cursors[0][0])
            assert [message.event["type"] for message in await client.pull("zone")] == ["whimbrel.leave"]
            await town.drop()
            with pytest.raises(Refused, match="not-found"):
                await client.pull("zone")

    asyncio.run(work())


@pytest.mark.parametrize("name", [".", "..", ""])
def test_a_name_that_would_be_a_step_in_the_path_is_never_sent(name: str) -> None:
    with Client("http://127.0.0.1:9") as client:
        town = client.space("town")
        for call in (
            town.delete, client.publications.get, client.publications.delete, client.delete, client.pull, client.space
        ):  # fmt: skip
            with pytest.raises(BadName, match=r"other than \. and \.\."):
                call(name)


def test_a_client_that_blocks_may_be_used_where_an_event_loop_runs(broker: BrokerProcess) -> None:
    async def work() -> None:
        with Client(broker.url) as client:
            id = client.create("TRUE", start="beginning")["id"]
            client.publish({"n": 1})
            stream = client.subscribe(id=id)
            assert next(stream).cursor
            del stream  # closes its connection
            assert any(one["id"] == id for one in client.list())
            client.delete(id)

    asyncio.run(work(), debug=True)
