"""Calls that block, made of coroutines. Each call of a client is written once, as a coroutine.

A client without an event loop runs the same coroutines over connections that block. They never wait for a loop, so one
step takes them from their start to their end.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing, and return its result."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("Expected a coroutine that blocks instead of waiting")


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """A method that runs a coroutine method of `self._calls`."""

    @wraps(method)
    def call(self: Any, /, *arguments: P.args, **options: P.kwargs) -> T:
        return run_now(method(self._calls, *arguments, **options))

    return call


def blocking_iterator(
    method: Callable[Concatenate[Any, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """A method that runs an asynchronous generator method of `self._calls`, item by item."""

    @wraps(method)
    def iterate(self: Any, /, *arguments: P.args, **options: P.kwargs) -> Iterator[T]:
        items = method(self._calls, *arguments, **options)
        try:
            while True:
                yield run_now(_next(items))
        except StopAsyncIteration:
            return
        finally:
            run_now(items.aclose())

    return iterate


async def _next(items: AsyncGenerator[T, None]) -> T:
    return await anext(items)
