"""A disk that fills up: events are refused in time, everything else goes on, and nothing acknowledged is lost."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.broker.processes import PLAIN, BrokerProcess
from whimbrel.broker.requests.errors import NoSpace
from whimbrel.broker.service.disk_space import LEAST_RESERVE, DiskSpace


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 130 MiB, of which a broker keeps half free."""
    mounted = tmp_path / "disk"
    mounted.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=130m", "tmpfs", str(mounted)], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("needs the right to mount a small file system")
    try:
        yield mounted
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


def fill(path: Path, size: int) -> None:
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)


def test_events_are_refused_in_time_and_taken_again(small_disk: Path) -> None:
    padding = "x" * 800_000
    with (
        BrokerProcess(small_disk / "data") as process,
        httpx.Client(base_url=process.url, timeout=120, **PLAIN) as http,
    ):
        id = http.post("/subscriptions", json={"filter": "data.n >= 0"}).json()["id"]
        other = http.post("/subscriptions", json={"filter": "data.n < 0"}).json()["id"]
        fill(small_disk / "filler", 30 << 20)
        acked: list[int] = []

        def publish_until_refused() -> httpx.Response:
            while True:
                answer = http.post("/events", json={"n": len(acked), "padding": padding})
                if answer.status_code != 200:
                    return answer
                acked.append(len(acked))

        refused = publish_until_refused()
        assert refused.status_code == 507 and refused.json()["error"]["code"] == "disk-full"
        assert int(refused.headers["retry-after"]) > 0
        free = DiskSpace(small_disk).free
        assert free > LEAST_RESERVE // 2
        # A subscription is smaller than an event: leave it no room either.
        fill(small_disk / "other", max(free - LEAST_RESERVE, 0) + (1 << 20))
        assert http.post("/subscriptions", json={"filter": "TRUE"}).status_code == 507
        assert http.post(f"/subscriptions/{id}/ack", json={"offset": 2}).status_code == 200
        assert http.delete(f"/subscriptions/{other}").status_code == 204
        assert http.get(f"/subscriptions/{id}/messages?limit=1").status_code == 200
        assert http.get("/readyz").status_code == 200
        before = len(acked)
        (small_disk / "filler").unlink()
        publish_until_refused()
        assert len(acked) > before > 10
        assert "whimbrel_no_space_total 3.0" in http.get("/metrics").text
        process.kill()
        process.start()
        seen: list[int] = []
        after = "-1"
        while found := http.get(f"/subscriptions/{id}/messages", params={"after": after}).json()["messages"]:
            seen += [one["event"]["data"]["n"] for one in found]
            after = found[-1]["cursor"]
        assert seen == acked


def test_what_truncation_left_in_the_log_counts_as_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = DiskSpace(tmp_path, 100)
    free = 1_000
    monkeypatch.setattr(DiskSpace, "free", property(lambda _: free))
    space.check(300)
    with pytest.raises(NoSpace, match="MiB of the disk to stay free"):
        space.check(301)
    assert not space.has(901)
    space.reusable = 1_001
    assert space.has(901) and not space.has(902)
    free = 49  # below half of the reserve the write-ahead log has no room
    assert not space.has(0)
