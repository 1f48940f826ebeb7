"""A way between two brokers that can be cut: bytes go through a socket of the test."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self


class Passage:
    """Listens on a port of its own and passes bytes on to another, until it is cut; then it goes on with the next."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self.is_shut = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """End every connection."""
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._open.clear()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                one, _ = self._listener.accept()
                if self.is_shut:
                    one.close()
                    continue
                with suppress(OSError):
                    other = socket.create_connection(("127.0.0.1", self._target))
                    self._open += [one, other]
                    for source, sink in ((one, other), (other, one)):
                        threading.Thread(target=_pass_on, args=(source, sink), daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)
