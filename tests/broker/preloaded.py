"""What the parent of all broker processes imports and compiles once."""

from tempfile import TemporaryDirectory

import whimbrel.broker.server  # noqa: F401
from whimbrel.engine.index import Index

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
