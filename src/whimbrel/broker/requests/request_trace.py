"""Follow a request: its id, for logs and answers, and the trace that it belongs to, which its events carry on.

A trace is what W3C Trace Context puts into the headers `traceparent` and `tracestate`, and the distributed tracing
extension of CloudEvents into attributes of the same names. An event that has a trace of its own keeps it.
"""

from __future__ import annotations

import re
import uuid
from contextvars import ContextVar
from typing import NamedTuple

import msgspec

from whimbrel.broker.requests.envelope import Incoming

REQUEST_ID: ContextVar[str] = ContextVar("whimbrel-request-id", default="")
"""The id of the request that is served."""

_SANE = re.compile(r"[A-Za-z0-9._~:/+=@-]{1,128}")
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_STATE = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,510}[\x21-\x7e])?")


class _Carried(msgspec.Struct, gc=False):
    """The attributes of a trace that an event has."""

    traceparent: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    tracestate: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_carried = msgspec.json.Decoder(_Carried)


class RequestTrace(NamedTuple):
    """The trace of a request."""

    parent: str
    state: str | None = None

    @classmethod
    def of(cls, parent: str | None, state: str | None) -> RequestTrace | None:
        """The trace of two headers; None if there is none, or one that is not well-formed.

        >>> RequestTrace.of("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None).state is None
        True
        """
        if parent is None or not _PARENT.fullmatch(parent):
            return None
        return cls(parent, state if state is not None and _STATE.fullmatch(state) else None)

    def carry(self, event: Incoming) -> Incoming:
        """The event with this trace, if it has none."""
        held = _carried.decode(event.raw)
        if not isinstance(held.traceparent, msgspec.UnsetType) or not isinstance(held.tracestate, msgspec.UnsetType):
            return event
        added = {"traceparent": self.parent} | ({} if self.state is None else {"tracestate": self.state})
        raw = msgspec.json.encode(added)[:-1] + b"," + event.raw.lstrip()[1:]
        return Incoming(raw, event.source, event.id)


def request_id(asked: str | None) -> str:
    """The id that a client gave its request, if it is sane, else a new one."""
    return asked if asked is not None and _SANE.fullmatch(asked) else uuid.uuid4().hex
