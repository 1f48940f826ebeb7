"""The client against a real broker: both mirrors, batching, reconnecting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.processes import BrokerProcess, free_port
from whimbrel.client import AsyncClient, Client, Message, Refused, Unreachable
from whimbrel.client.wire import EventParser


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
            retried = threading.Thread(target=lambda: client.publish([{"n": 4}, {"n": 5}]))
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


def test_server_sent_events_are_parsed_whatever_the_pieces() -> None:
    text = b": hi\n\nid: 1\ndata: a\ndata: b\n\nevent: end\ndata: {}\r\n\r\nid: 2\n\ndata: c\n\n"
    expected = [("message", "1", b"a\nb"), ("end", "1", b"{}"), ("message", "2", b"c")]
    for size in (1, 2, 3, 7, 100):
        parser = EventParser()
        found = [one for at in range(0, len(text), size) for one in parser.feed(text[at : at + size])]
        assert found == expected
