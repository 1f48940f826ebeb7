"""What the parent of all broker processes imports and compiles once."""

from tempfile import TemporaryDirectory

import whimbrel.broker.server  # noqa: F401
from whimbrel.broker.peering.log_feed import LoggedEvent
from whimbrel.broker.peering.routing import LinkRouter
from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.service.warm_up import warm_up
from whimbrel.engine.index import Index

warm_up()
with TemporaryDirectory() as _directory:
    _index = Index()
    _index.add_many(
        [
            (1, "data.n < 5"),
            (2, "data.tags CONTAINS 'a'"),
            (3, "data.n BETWEEN 20 AND 60 AND type = 'even'"),
            (4, "TRUE"),
            (5, "data.mark = 'x'"),
        ]
    )
    _index.add(6, "data.n > 5")
    for _ in _index.match_blocks([b'{"type": "even", "data": {"n": 30, "tags": ["a", "b"]}}'], threads=1, errors=[]):
        pass
    _index.save(_directory)
    Index.open(_directory)

_router = LinkRouter("0" * 32, Settings())
_router.join("1" * 32, {})
_router.optimize()
_router.change_filters("1" * 32, [("", "data.n < 5")])
_event = LoggedEvent(0, b'{"data": {"n": 3}}', "", "0" * 32, 0)
_prefix = _router.route(_event).prefix
assert _router.route(_event._replace(offset=1, origin="2" * 32, prefix=_prefix)).mask
