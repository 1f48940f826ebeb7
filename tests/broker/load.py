"""Load for a broker that is killed: publishers, consumers and changes that never give up, and their history."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import httpx
import msgspec

from whimbrel.client import Client, Refused

FILTERS = (
    "data.n < 30",
    "data.n >= 70",
    "data.tags CONTAINS 'a'",
    "data.n BETWEEN 20 AND 60 AND type = 'even'",
    "TRUE",
)


class Load:
    """Threads that work against one broker and note what they did and what they were told."""

    def __init__(self, url: str, seed: int, token: str | None = None) -> None:
        self.url = url
        self.token = token
        self.history: list[dict[str, Any]] = []
        self.stopped = threading.Event()
        self.errors: list[BaseException] = []
        self._random = random.Random(seed)
        self._sessions = count()
        self._threads: list[threading.Thread] = []

    def note(self, op: str, **fields: Any) -> None:
        self.history.append({"op": op, **fields})

    def go(self, work: Callable[[Client, random.Random], None]) -> None:
        chance = random.Random(self._random.random())

        def run() -> None:
            try:
                with Client(self.url, self.token, attempts=1000, timeout=10) as client:
                    while not self.stopped.is_set():
                        work(client, chance)
            except BaseException as error:
                self.errors.append(error)

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.stopped.set()
        for thread in self._threads:
            thread.join()
        assert self.errors == []

    def publisher(self, name: str) -> None:
        numbers = count()

        def work(client: Client, chance: random.Random) -> None:
            batch = []
            for _ in range(chance.choice((1, 3, 20))):
                number = next(numbers)
                data = {"n": chance.randrange(100), "tags": chance.sample(["a", "b", "c"], chance.randrange(3))}
                kind = "even" if number % 2 == 0 else "odd"
                batch.append({"specversion": "1.0", "id": str(number), "source": name, "type": kind, "data": data})
            for event in batch:
                self.note("attempt", event=event)
            for event, result in zip(batch, client.publish(batch), strict=True):
                assert result.offset is not None, result
                self.note("acked", source=name, id=event["id"], offset=result.offset)

        self.go(work)

    def wait_for_acks(self, count: int) -> None:
        """Until so many events more are acknowledged, however slow the machine is."""
        wanted = self.acked + count
        while self.acked < wanted and not self.errors:
            time.sleep(0.01)

    @property
    def acked(self) -> int:
        """The events that were acknowledged."""
        return sum(line["op"] == "acked" for line in list(self.history))

    def subscribe(self, text: str) -> str:
        """Create a subscription while the broker is up."""
        with Client(self.url, self.token) as client:
            made = client.create(text)
            self._note_version(client, made["id"])
            return str(made["id"])

    def _note_version(self, client: Client, id: str) -> None:
        answer = client._http.get(f"/subscriptions/{id}")
        answer.raise_for_status()
        held = {"subscription": id, "filter": answer.json()["filter"], "from": int(answer.headers["etag"].strip('"'))}
        if not any(all(line.get(key) == held[key] for key in held) for line in self.history):
            self.note("version", **held)

    def changer(self, id: str, **fields: Any) -> None:
        """Gives a subscription another filter now and then; after a crash it reads which one holds."""

        def work(client: Client, chance: random.Random) -> None:
            time.sleep(0.05)
            try:
                body = msgspec.json.encode({"filter": chance.choice(FILTERS), **fields})
                client._http.put(f"/subscriptions/{id}", content=body).raise_for_status()
            except (httpx.TransportError, httpx.HTTPStatusError):
                time.sleep(0.05)
            while True:
                try:
                    self._note_version(client, id)
                    return
                except (httpx.TransportError, httpx.HTTPStatusError):
                    time.sleep(0.02)

        self.go(work)

    def puller(self, id: str) -> None:
        """Pulls, and acknowledges most of the time, so that some messages come again."""
        self.go(lambda client, chance: self.pull_once(client, id, chance.random() < 0.7, 0.1))

    def pull_once(self, client: Client, id: str, acknowledge: bool, wait: float = 0.0) -> int:
        found = client.pull(id, limit=500, wait=wait)
        session = next(self._sessions)
        self.note("session", subscription=id, session=session, after=-1)
        self._note_delivered(id, session, found)
        if found and acknowledge:
            client.acknowledge(id, found[-1].cursor)
        return len(found)

    def follower(self, id: str) -> None:
        """Follows the stream of a subscription for good; the client resumes by itself, so there is one session."""

        def run() -> None:
            session = next(self._sessions)
            self.note("session", subscription=id, session=session, after=-1)
            try:
                with Client(self.url, self.token) as client:
                    for message in client.subscribe(id=id):
                        self._note_delivered(id, session, [message])
                        if self.stopped.is_set() and message.event["type"] == "end":
                            return
            except Refused as error:
                self.errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()

    def _note_delivered(self, id: str, session: int, messages: list[Any]) -> None:
        for message in messages:
            names = {"source": message.event["source"], "id": message.event["id"]}
            self.note("delivered", subscription=id, session=session, offset=message.offset, **names)

    def drain(self, ids: list[str]) -> None:
        """Read everything that is left, with the broker up and nobody publishing."""
        with Client(self.url, self.token) as client:
            for id in ids:
                while self.pull_once(client, id, True):
                    pass
