"""Waiting for what an index does in the background."""

from whimbrel import Index


def wait_for_merges(index: Index) -> None:
    merger = index._subscriptions.segments._merger
    if merger is not None:
        merger.join()
