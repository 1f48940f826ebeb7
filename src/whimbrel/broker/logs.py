"""What a broker writes to standard error: lines of text, or of JSON for programs that gather them."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

from whimbrel.broker.requests.request_trace import REQUEST_ID

_LEAST = {"whimbrel": logging.DEBUG, "uvicorn": logging.ERROR}
"""Whose lines are written, and of which level at least. Strangers could fill a disk with the warnings of the server."""


_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {ord("\n"): "\\n"}
"""Control characters, which a path may have, are shown and not obeyed by the terminal that shows a line."""


class JsonRecords(logging.Formatter):
    """A record as one JSON object: time, level, logger, message; request and fields where there are any."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request := REQUEST_ID.get():
            line["request"] = request
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextRecords(logging.Formatter):
    """A record as a line to read."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record, and the lines of its error."""
        fields = getattr(record, "fields", {})
        more = [f"{name}={value}" for name, value in fields.items() if name not in ("method", "path", "status")]
        if request := REQUEST_ID.get():
            more.append(f"request={request}")
        line = f"{_time(record)} {record.levelname.lower()} {record.name}: {record.getMessage()}"
        line = " ".join([line, *more]).translate(_ESCAPES)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure_logs(form: str, level: str, stream: TextIO | None = None) -> None:
    """Write what Whimbrel and its server log to a stream (standard error), in the form `text` or `json`."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonRecords() if form == "json" else TextRecords())
    for name, least in _LEAST.items():
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(max(least, logging.getLevelNamesMapping()[level.upper()]))
        logger.propagate = False


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
