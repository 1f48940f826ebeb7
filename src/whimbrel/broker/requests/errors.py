"""The errors of the broker. Each has a `code`, which is what programs look at, and the HTTP status that it becomes."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from whimbrel.model.errors import WhimbrelError

BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a text that is not JSON, not UTF-8, nested too deeply, or not of the expected shape."""

SEARCHED_BYTES = 256 << 10
"""Bytes of a refused text that are searched for what is wrong: for all of a large body everybody would wait."""

T = TypeVar("T")
_ESCAPES = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]|(u[dD][89a-fA-F]..)|.)", re.DOTALL)


def json_problem(text: bytes, error: Exception) -> str:
    """What is wrong with a text that msgspec refused with one of BAD_JSON, and where.

    msgspec says of a lone surrogate that the text is truncated, or names the place of what follows.
    """
    if isinstance(error, msgspec.DecodeError) and not isinstance(error, msgspec.ValidationError):
        for found in _ESCAPES.finditer(text, 0, SEARCHED_BYTES):
            if found[1] is not None:
                escape = found[0].decode(errors="replace")
                return f"Expected text without lone surrogates, but got {escape} at byte {found.start()}"
    return str(error)


def decode_body(body: bytes, shape: type[T], code: str) -> T:
    """The struct that a body must be; Unprocessable, with a `code`, says what is wrong and where."""
    try:
        return msgspec.json.decode(body, type=shape)
    except BAD_JSON as error:
        raise Unprocessable(json_problem(body, error), code) from None


class BrokerError(WhimbrelError):
    """The base of the broker's errors: `status`, `code`, and a sentence."""

    status = 400
    code = "bad-request"

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class BadRequest(BrokerError):
    """A request that does not say what it must."""


class Unauthorized(BrokerError):
    """No token, or one that is not known."""

    status = 401
    code = "unauthorized"


class Forbidden(BrokerError):
    """A token without the scope, or an event outside its rules."""

    status = 403
    code = "forbidden"


class NotFound(BrokerError):
    """What the request names does not exist, or the caller may not see it."""

    status = 404
    code = "not-found"


class Conflict(BrokerError):
    """The request contradicts what exists already."""

    status = 409
    code = "conflict"


class Truncated(BrokerError):
    """Messages behind a cursor were deleted: `after` is the cursor's offset, `first` the first that is left."""

    status = 410
    code = "truncated"

    def __init__(self, after: int, first: int) -> None:
        self.after, self.first = after, first
        super().__init__(
            f"Expected a cursor of at least {first - 1}, but got {after}: messages below {first} were deleted"
        )


class PreconditionFailed(BrokerError):
    """If-Match names another version than the present one."""

    status = 412
    code = "precondition-failed"


class TooLarge(BrokerError):
    """A request above a limit of size."""

    status = 413
    code = "too-large"


class UnsupportedMediaType(BrokerError):
    """A Content-Type that the endpoint does not take."""

    status = 415
    code = "unsupported-media-type"


class Unprocessable(BrokerError):
    """A well-formed request whose content is refused: an invalid event, a filter that does not parse."""

    status = 422
    code = "unprocessable"

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


def refusal(error: WhimbrelError, code: str) -> BrokerError:
    """The error of the broker for an error of the library."""
    return error if isinstance(error, BrokerError) else Unprocessable(str(error), code)


QUOTA_SECONDS = 60.0
"""What a principal is told to wait that has used up a quota."""


class TooManyRequests(BrokerError):
    """A rate or a quota is used up; `retry_after` in seconds."""

    status = 429
    code = "too-many-requests"

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class HeadTooLarge(BrokerError):
    """The head of a request, or the trailers behind its body, above the limit of bytes."""

    status = 431
    code = "too-large"


class InternalError(BrokerError):
    """A mistake of the broker, or data that it cannot read. The request has changed nothing."""

    status = 500
    code = "internal-error"


class NoSpace(BrokerError):
    """The disk is nearly full: events and subscriptions are refused until there is space again."""

    status = 507
    code = "disk-full"
    retry_after = 5.0


class Unavailable(BrokerError):
    """The broker takes nothing now: its queue is full, it stops, or its log has failed."""

    status = 503
    code = "unavailable"
    retry_after = 1.0
