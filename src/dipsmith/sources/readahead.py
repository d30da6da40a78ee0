"""Reading ahead: the next items are made in another thread while the caller works on this one.

Arrow decodes without holding Python's lock, so that two threads work at the same time. Order and errors are those of
the iterator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar, cast

Item = TypeVar("Item")

_END = object()


def read_ahead(items: Iterator[Item], depth: int = 2) -> Generator[Item, None, None]:
    """Yield the items of an iterator that runs in a thread of its own, `depth` items ahead.

    When the generator ends or is closed the thread has ended, and the iterator is closed.

    >>> list(read_ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    with ThreadPoolExecutor(1, "dipsmith-read") as thread:
        waiting: deque[Future[object]] = deque(thread.submit(next, items, _END) for _ in range(depth))
        try:
            while (item := waiting.popleft().result()) is not _END:
                waiting.append(thread.submit(next, items, _END))
                yield cast("Item", item)
        finally:
            thread.shutdown(cancel_futures=True)
            close = getattr(items, "close", None)
            if close is not None:
                close()
