"""A backup as a stream of frames: a length of four bytes, then a name and a content in MessagePack.

facts   what the manifest will say, and the former ids of the log
store   a piece of the store's file
lost    a piece of the file of lost keys
log     rows of the log
end     nothing: the backup is whole
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from whimbrel.broker.backup.manifest import BackupError

PIECE_BYTES = 1 << 20
"""Bytes of a file in one frame."""
FRAME_ROWS = 1_024
"""Rows of the log in one frame."""
_LENGTH = 4

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[str, Any])


def frame(name: str, content: object) -> bytes:
    """Encode one frame."""
    coded = _encoder.encode((name, content))
    return len(coded).to_bytes(_LENGTH, "big") + coded


def read_frames(pieces: Iterable[bytes]) -> Iterator[tuple[str, Any]]:
    """The frames of a stream; BackupError if it ends before the frame `end`."""
    rest = bytearray()
    for piece in pieces:
        rest += piece
        while len(rest) >= _LENGTH and len(rest) >= _LENGTH + int.from_bytes(rest[:_LENGTH], "big"):
            length = int.from_bytes(rest[:_LENGTH], "big")
            name, content = _decoder.decode(bytes(rest[_LENGTH : _LENGTH + length]))
            del rest[: _LENGTH + length]
            yield name, content
            if name == "end":
                return
    raise BackupError("the stream", "Expected a whole backup, but the broker ended it")
