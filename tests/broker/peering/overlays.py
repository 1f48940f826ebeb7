"""Overlays of broker processes for tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import httpx

from tests.broker.processes import PLAIN, BrokerProcess
from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.service.broker import Broker
from whimbrel.client import Client


async def _make_tokens(data: Path) -> tuple[str, str]:
    async with Broker(Settings(data=str(data)), serve=False) as broker:
        return await broker.tokens.create("root", ["admin"]), await broker.tokens.create("peers", ["peer"])


class OverlayBroker(BrokerProcess):
    """A broker process with a token for the test and one for its peers."""

    def __init__(self, data: Path, name: str, **settings: Any) -> None:
        self.root, self.peer_token = asyncio.run(_make_tokens(data))
        self.name = name
        super().__init__(data, name=name, **settings)

    def dial(self, *others: OverlayBroker) -> None:
        """Link with others from the next start on."""
        self.settings["peers"] = [other.url for other in others]
        self.settings["peer_tokens"] = [other.peer_token for other in others]

    def client(self, **options: Any) -> Client:
        return Client(self.url, self.root, **options)

    def new_token(self, name: str, scopes: list[str], **rights: Any) -> str:
        headers = {"authorization": f"Bearer {self.root}"}
        body = {"name": name, "scopes": scopes, **rights}
        made = httpx.post(f"{self.url}/tokens", json=body, headers=headers, timeout=60, **PLAIN)
        return str(made.raise_for_status().json()["token"])

    def delete(self, path: str) -> int:
        headers = {"authorization": f"Bearer {self.root}"}
        return httpx.delete(self.url + path, headers=headers, timeout=60, **PLAIN).status_code

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, headers={"authorization": f"Bearer {self.root}"}, timeout=60, **PLAIN)

    def overlay(self) -> Any:
        return self.get("/overlay").raise_for_status().json()

    def links(self) -> dict[str, Any]:
        return {link["name"]: link for link in self.overlay()["links"]}


class Overlay:
    """Brokers b0, b1, ... Each pair of `edges` is linked; the first of a pair dials."""

    def __init__(self, directory: Path, count: int, edges: list[tuple[int, int]], optimizer: int | None = 0) -> None:
        self.brokers = [OverlayBroker(directory / f"b{number}", f"b{number}") for number in range(count)]
        for number, broker in enumerate(self.brokers):
            broker.settings["optimizer"] = number == optimizer
            broker.settings["optimizer_seconds"] = 0.2
            broker.dial(*(self.brokers[two] for one, two in edges if one == number))
        self.edges = edges

    def __enter__(self) -> Self:
        for broker in self.brokers:
            broker.start(wait=False)
        for broker in self.brokers:
            until(broker.is_ready)
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers:
            broker.kill()

    def until_linked(self) -> None:
        """Wait until every link is connected on both sides."""
        for one, two in self.edges:
            for here, there in ((one, two), (two, one)):
                name = self.brokers[there].name
                until(lambda here=here, name=name: self.brokers[here].links().get(name, {}).get("connected"))

    def until_filters(self, counts: list[int]) -> None:
        """Wait until every broker knows so many filters."""
        for broker, count in zip(self.brokers, counts, strict=True):
            until(lambda broker=broker, count=count: broker.overlay()["routing"]["filters"] == count)

    def until_peers_told(self, count: int) -> None:
        """Wait until every broker has so many filters from each of its peers.

        Where brokers have the same filter, `until_filters` does not tell whether it came: each has it from the start.
        """
        for broker in self.brokers:
            until(lambda broker=broker: all(link["filters"] == count for link in broker.links().values()))


def until(holds: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait until something is true."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, "expected it to become true"
        time.sleep(0.02)
    return found
