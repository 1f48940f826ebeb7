"""Errors of Spark in one sentence, without Java.

An error that Whimbrel raises on a worker comes back inside the text of several others. The user needs only its own
message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from whimbrel.model.errors import WhimbrelError

_CONDITION = re.compile(r"^(?:[\w.$]+(?:Exception|Error): )*(?:\[[A-Z0-9_.]+\]\s*)?")
_STATE = re.compile(r"\.?\s*SQLSTATE: .*")
_CAUSE = "Caused by: "
_GATEWAY = "An error occurred while calling "


class JobFailed(WhimbrelError):
    """A job of Spark failed: the `reason` in its own words, and the `log` with the rest, where one was kept."""

    def __init__(self, reason: str, log: str | None = None) -> None:
        self.reason, self.log = reason, log
        super().__init__(reason + (f" (Spark's log: {log})" if log else ""))


@contextmanager
def plain_failures(log: str | None = None) -> Iterator[None]:
    """Turn errors of Spark that are raised inside into JobFailed."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise JobFailed(reason_of(str(error)), log) from None


def reason_of(text: str) -> str:
    """The sentence of an error of Spark that says what happened."""
    worker = _of_worker(text)
    if worker is not None:
        return worker
    lines = [line for line in text.strip().splitlines() if not line.lstrip().startswith(("at ", "... ", _GATEWAY))]
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    said = [_STATE.sub("", _CONDITION.sub("", line.removeprefix(": "))).strip() for line in lines[:1] + causes[-1:]]
    return ": ".join(dict.fromkeys(said))


def _of_worker(text: str) -> str | None:
    """The words of the error that a Python worker raised: the text after the last frame of its traceback."""
    start = text.rfind("Traceback (most recent call last):")
    if start < 0:
        return None
    lines = text[start:].splitlines()[1:]
    words: list[str] = []
    for line in lines:
        if words and (not line.strip() or line.lstrip().startswith(("at ", "SQLSTATE: ", "=== "))):
            break
        if words or (line and not line[0].isspace()):
            words.append(line)
    if not words:
        return None
    raised = re.match(r"^[\w.]+: (.*)", words[0])
    return "\n".join([raised[1] if raised else words[0], *words[1:]])
