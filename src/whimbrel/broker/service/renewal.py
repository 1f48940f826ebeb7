"""Another id for the log of a broker that does not run.

A broker whose directory was restored from a backup gives offsets again that its peers have seen. They would take the
new events for old ones, so the log gets another id, and everything in the directory that names the log follows.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from whimbrel.broker.store.formats import follow_log
from whimbrel.log import renew_id


def renew(directory: Path) -> str:
    """Give the log in a broker's data directory a new id, and return it.

    The lists of event ids and the saved index are made for one id: they are deleted, and made anew at the next start.
    """
    made = renew_id(directory / "log")
    store = directory / "broker.sqlite"
    if store.exists():
        follow_log(store, made)
    for derived in ("ids", "index"):
        shutil.rmtree(directory / derived, ignore_errors=True)
    return made
