"""What an engine outside of the broker needs: the log, the versions of subscriptions, and a place for match lists."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from whimbrel.broker.http.exchange import answer, body_of, broker_of, integer_of, number_of, principal_of, problem_of
from whimbrel.broker.http.operation import LINES, OBJECT, JsonSchema, Operations
from whimbrel.broker.requests.errors import BadRequest, Truncated, Unprocessable, UnsupportedMediaType
from whimbrel.broker.service.matches import NotAtWatermark
from whimbrel.log import EVENT, BelowFloor, BeyondEnd, LogReader
from whimbrel.log.match_commit import MEDIA_TYPE, MatchStatus, decode
from whimbrel.log.version_ranges import SubscriptionVersion

ARROW = "application/vnd.apache.arrow.stream"
PAGE_BYTES = 4 << 20
"""Bytes at which a page of the log ends."""
_CHUNK = 64  # entries that are read at once
_PAGE_ENTRIES = 10_000
_LINES = 1_000  # versions that are sent at once
_LAST = 1 << 62
_LOG = pa.schema(
    {"offset": pa.int64(), "time": pa.timestamp("us", "UTC"), "event": pa.binary(), "matches": pa.binary()}
)


class CommitAnswer(msgspec.Struct):
    """A commit is in the log; `repeated` if it was there before."""

    watermark: int
    repeated: bool


_OFFSET: JsonSchema = {"type": "integer", "minimum": 0, "maximum": _LAST}
RANGE: dict[str, JsonSchema] = {"from": _OFFSET, "until": _OFFSET}
OPERATIONS = Operations()


@OPERATIONS.add(
    "GET",
    "/matches",
    {200: MatchStatus},
    query={"wait": {"type": "number", "minimum": 0, "maximum": 60, "default": 0}},
    errors=(403,),
)
async def status(request: Request) -> Response:
    """How far events are matched, and what waits. For engines outside of the broker, as all of these."""
    broker, _ = broker_of(request), principal_of(request, "match")
    found = await broker.matches.wait(number_of(request, "wait", 0.0, 0, 60))
    return answer(found)


@OPERATIONS.add("GET", "/matches/settings", {200: OBJECT}, errors=(403,))
async def settings(request: Request) -> Response:
    """How events are read: attributes with timestamps, and the schema."""
    broker, _ = broker_of(request), principal_of(request, "match")
    schema = broker.index.schema
    document = None if schema is None else schema.to_document()
    return answer({"timestamps": sorted(broker.index.timestamps), "schema": document})


@OPERATIONS.add(
    "POST", "/matches/commits", {200: CommitAnswer, 409: OBJECT}, {MEDIA_TYPE: MEDIA_TYPE}, errors=(403, 413, 415, 422)
)
async def commit(request: Request) -> Response:
    """Bring the match lists of a range that begins at the watermark. 409 says where that is."""
    broker, _ = broker_of(request), principal_of(request, "match")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != MEDIA_TYPE:
        raise UnsupportedMediaType(f"Expected {MEDIA_TYPE}, but got {kind[:80]!r}")
    try:
        commit = decode(await body_of(request))
    except ValueError as error:
        raise Unprocessable(str(error), "bad-lists") from None
    try:
        taken = await broker.matches.commit(commit)
    except NotAtWatermark as error:
        return answer({"error": problem_of(error), "watermark": error.watermark}, error.status)
    return answer(CommitAnswer(taken.watermark, taken.repeated))


@OPERATIONS.add("GET", "/log", {200: ARROW}, query=RANGE, errors=(403, 410, 422))
async def log(request: Request) -> Response:
    """Events of the log as an Arrow stream, a page at a time: `next` in its metadata is where the next one begins."""
    broker, _ = broker_of(request), principal_of(request, "match")
    first, until = _range(request)
    return await broker.runtime.in_thread(_page, broker.log, first, until)


def _page(log: LogReader, first: int, until: int | None) -> Response:
    """A page of events. The metadata of its schema say where it ends, and what the log has."""
    floor, end = log.bounds
    last = end if until is None else until
    rows: list[tuple[int, int, int, bytes, bytes | None]] = []
    size, place = 0, first
    try:
        for chunk in log.chunks(first, last, _CHUNK):
            rows += [row for row in chunk if row[2] == EVENT]
            size += sum(len(row[3]) + len(row[4] or b"") for row in chunk)
            place = chunk[-1][0] + 1
            if size >= PAGE_BYTES or place - first >= _PAGE_ENTRIES:
                break
    except BelowFloor as error:
        raise Truncated(first - 1, error.floor) from None
    except BeyondEnd as error:
        raise Unprocessable(str(error), "bad-range") from None
    offsets, times, events, matches = ([row[at] for row in rows] for at in (0, 1, 3, 4))
    columns: list[Any] = [pa.array(offsets, pa.int64()), pa.array(times, pa.int64()).cast(_LOG.field("time").type)]
    columns += [pa.array(events, pa.binary()), pa.array(matches, pa.binary())]
    facts = {"log": log.id, "floor": str(floor), "end": str(end), "next": str(place)}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _LOG.with_metadata(facts)) as out:
        out.write_batch(pa.record_batch(columns, schema=_LOG))
    return Response(sink.getvalue().to_pybytes(), media_type=ARROW)


async def export_versions(request: Request) -> Response:
    """GET /subscriptions/export?from=&until=: every version that overlaps a range, one per line."""
    broker, _ = broker_of(request), principal_of(request, "match")
    first, until = _range(request)
    since = integer_of(request, "since", 0, 0, _LAST)
    found = broker.matches.versions(first, broker.matches.end if until is None else until, since)

    async def lines() -> AsyncIterator[bytes]:
        while page := await broker.runtime.in_thread(_lines, found):
            yield page

    return StreamingResponse(lines(), media_type=LINES)


def _lines(versions: Iterator[SubscriptionVersion]) -> bytes:
    return b"".join(msgspec.json.encode(version) + b"\n" for version in islice(versions, _LINES))


def _range(request: Request) -> tuple[int, int | None]:
    first = integer_of(request, "from", 0, 0, _LAST)
    until = integer_of(request, "until", -1, 0, _LAST)
    if 0 <= until < first:
        raise BadRequest(f"Expected a range, but got [{first}, {until})")
    return first, None if until < 0 else until
