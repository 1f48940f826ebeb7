"""How a server stops: streams end, and nobody opens another one meanwhile."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import uvicorn

from tests.broker.inside import opened, run, subscribe
from whimbrel.broker.server import StoppingServer
from whimbrel.broker.service.principal import ANYBODY


def test_a_stream_that_is_opened_while_links_end_ends_with_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that was told of the end comes back at once; its stream would hold up the stop."""

    async def nothing(*_: object) -> None:
        """Stand for what uvicorn does, which needs a server that has started."""

    monkeypatch.setattr(uvicorn.Server, "shutdown", nothing)

    async def work() -> None:
        async with opened(tmp_path) as broker:
            held = await subscribe(broker, "TRUE")
            streams = []

            async def end_links() -> None:
                streams.append(broker.delivery.open_stream(held.id, ANYBODY, "sse")[1])

            await StoppingServer(uvicorn.Config("app"), broker, SimpleNamespace(stop=end_links)).shutdown()  # type: ignore[arg-type]
            assert [stream.outbox.closed for stream in streams] == ["stopping"]

    run(work)
