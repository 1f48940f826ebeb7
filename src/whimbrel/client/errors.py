"""The errors of the client."""

from __future__ import annotations

from whimbrel.model.errors import WhimbrelError


class ClientError(WhimbrelError):
    """The base of the client's errors."""


class Unreachable(ClientError):
    """The broker did not answer in time; `attempts` were made."""

    def __init__(self, url: str, problem: str, attempts: int) -> None:
        self.url = url
        self.problem = problem
        self.attempts = attempts
        super().__init__(f"Expected an answer from {url}, but got none in {attempts} attempts: {problem}")


class BadAuthority(ClientError):
    """The file of certificates to trust, at `path`, cannot be used."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        super().__init__(f"Expected a file of certificates in PEM, but: {problem} - at {path}")


class BadName(ClientError):
    """A `name` that no broker takes as an id, a key or the name of a space: nothing was sent."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"Expected an id, key or name that is not empty and other than . and .., but got {name!r}")


class PublisherClosed(ClientError):
    """A publisher that sends nothing: its `with` block has not begun, or is over."""

    def __init__(self) -> None:
        super().__init__("Expected a publisher inside its `with` block, but it is closed: the event was not sent")


class Refused(ClientError):
    """The broker refused a request: its `status`, and the `code` of the reason."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        self.message = message
        super().__init__(f"{message} ({status} {code})")


class Gone(Refused):
    """Messages behind a cursor were deleted: `first` is the first offset that is left.

    To go on from there, acknowledge `first - 1`, or pull with `after=first - 1`.
    """

    def __init__(self, status: int, code: str, message: str, first: int) -> None:
        super().__init__(status, code, message)
        self.first = first


class StreamEnded(ClientError):
    """The broker ended a stream for good: `replaced` by another reader, `deleted`, `expired`, `token-revoked`."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"Expected the stream to go on, but the broker ended it: {reason}")
