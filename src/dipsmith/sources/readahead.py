"""Reading ahead: the next items are made in another thread while the caller works on this one.

Arrow decodes without holding Python's lock, so two threads decode at the same time. Order and errors are
those of the iterator; at most `depth` items wait.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from typing import TypeVar, cast

Item = TypeVar("Item")

_END = object()


class _Failed:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def ahead(items: Iterator[Item], depth: int = 2) -> Generator[Item, None, None]:
    """Yield the items of an iterator that runs in a thread of its own, from this call on.

    Closing the generator stops the thread and closes the iterator.

    >>> list(ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    waiting: queue.Queue[object] = queue.Queue(depth)
    stop = threading.Event()

    def work() -> None:
        outcome: object = _END
        try:
            for item in items:
                waiting.put(item)
                if stop.is_set():
                    break
        except BaseException as error:  # noqa: BLE001 - raised again where the items are used
            outcome = _Failed(error)
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
        waiting.put(outcome)

    thread = threading.Thread(target=work, name="dipsmith-read", daemon=True)
    thread.start()
    return _drained(waiting, stop, thread)


def _drained(
    waiting: queue.Queue[object], stop: threading.Event, thread: threading.Thread
) -> Generator[Item, None, None]:
    ended = False
    try:
        while True:
            item = waiting.get()
            if item is _END:
                ended = True
                return
            if isinstance(item, _Failed):
                ended = True
                raise item.error
            yield cast("Item", item)
    finally:
        stop.set()
        while not ended:  # the thread may be waiting for room; whatever it still puts is thrown away
            last = waiting.get()
            ended = last is _END or isinstance(last, _Failed)
        thread.join()
