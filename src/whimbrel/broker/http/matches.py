"""What an engine outside of the broker needs: the log, the versions of subscriptions, and a place for match lists."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import islice

import msgspec
import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from whimbrel.broker.http.exchange import answer, body_of, broker_of, integer_of, number_of, principal_of, problem_of
from whimbrel.broker.http.operation import LINES, OBJECT, JsonSchema, Operations
from whimbrel.broker.requests.errors import BadRequest, Truncated, Unprocessable, UnsupportedMediaType
from whimbrel.broker.service.matches import CommitAnswer, NotAtWatermark
from whimbrel.log import EVENT, BelowFloor, BeyondEnd, LogReader
from whimbrel.log.match_commit import MEDIA_TYPE, MatchStatus, decode
from whimbrel.log.version_ranges import SubscriptionVersion
from whimbrel.publications.arrow_columns import column_of

ARROW = "application/vnd.apache.arrow.stream"
PAGE_BYTES = 4 << 20
"""Bytes at which a page of the log ends."""
_CHUNK = 64  # entries that are read at once
_PAGE_ENTRIES = 10_000
_LINES = 1_000  # versions that are sent at once
_LOG = pa.schema(
    {"offset": pa.int64(), "time": pa.timestamp("us", "UTC"), "event": pa.binary(), "matches": pa.binary()}
)


_WAIT: JsonSchema = {"type": "number", "minimum": 0, "maximum": 60, "default": 0}
_OFFSET: JsonSchema = {"type": "integer", "minimum": 0, "maximum": 1 << 62, "default": 0}
RANGE: dict[str, JsonSchema] = {
    "from": _OFFSET,
    "until": {"type": "integer", "minimum": 0, "maximum": 1 << 62, "description": "The end of the log by default."},
}
OPERATIONS = Operations()


@OPERATIONS.add("GET", "/matches", {200: MatchStatus}, query={"wait": _WAIT}, errors=(403,))
async def status(request: Request) -> Response:
    """How far events are matched, and what waits. For engines outside of the broker, as all of these."""
    broker, _ = broker_of(request), principal_of(request, "match")
    return answer(await broker.matches.wait(number_of(request, "wait", _WAIT)))


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
        return answer(await broker.matches.commit(commit))
    except NotAtWatermark as error:
        return answer({"error": problem_of(error), "watermark": error.watermark}, error.status)


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
    kinds = {0: pa.int64(), 1: pa.int64(), 3: pa.binary(), 4: pa.binary()}
    columns = [column_of([row[at] for row in rows], kind) for at, kind in kinds.items()]
    columns[1] = columns[1].view(_LOG.field("time").type)
    facts = {"log": log.id, "floor": str(floor), "end": str(end), "next": str(place)}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _LOG.with_metadata(facts)) as out:
        out.write_batch(pa.record_batch(columns, schema=_LOG))
    return Response(sink.getvalue().to_pybytes(), media_type=ARROW)


async def export_versions(request: Request) -> Response:
    """GET /subscriptions/export?from=&until=: every version that overlaps a range, one per line."""
    broker, _ = broker_of(request), principal_of(request, "match")
    first, until = _range(request)
    since = integer_of(request, "since", _OFFSET)
    found = broker.matches.versions(first, broker.matches.end if until is None else until, since)

    async def lines() -> AsyncIterator[bytes]:
        while page := await broker.runtime.in_thread(_lines, found):
            yield page

    return StreamingResponse(lines(), media_type=LINES)


def _lines(versions: Iterator[SubscriptionVersion]) -> bytes:
    return b"".join(msgspec.json.encode(version) + b"\n" for version in islice(versions, _LINES))


def _range(request: Request) -> tuple[int, int | None]:
    first = integer_of(request, "from", _OFFSET)
    if "until" not in request.query_params:
        return first, None
    until = integer_of(request, "until", RANGE["until"])
    if until < first:
        raise BadRequest(f"Expected a range, but got [{first}, {until})")
    return first, until
