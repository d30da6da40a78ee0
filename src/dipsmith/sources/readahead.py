"""Reading ahead: the next items are made in another thread while the caller works on this one.

Arrow decodes without holding Python's lock, so that two threads decode at the same time. Order and errors
are those of the iterator; at most `depth` items wait.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Generic, Self, TypeVar, cast

Item = TypeVar("Item")

_END = object()


class _Failed:
    def __init__(self, error: BaseException) -> None:
        self.error = error


class Ahead(Generic[Item]):
    """The items of an iterator that runs in a thread of its own, from now until it ends or `close`.

    Parameters
    ----------
    items
        What to run; it is closed when the thread ends.
    depth
        How many items may wait.

    Examples
    --------
    >>> with Ahead(iter("abc")) as letters:
    ...     list(letters)
    ['a', 'b', 'c']
    """

    def __init__(self, items: Iterator[Item], depth: int = 2) -> None:
        self._waiting: queue.SimpleQueue[object] = queue.SimpleQueue()
        # a place for every item that may wait; queues with a limit of their own take their turns in Python, at ten
        # times the cost
        self._places: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(depth):
            self._places.put(None)
        self._stop = threading.Event()
        self._ended = False
        self._thread = threading.Thread(
            target=_work,
            args=(items, self._waiting, self._places, self._stop),
            name="dipsmith-read",
            daemon=True,
        )
        self._thread.start()

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        if self._ended:
            raise StopIteration
        item = self._waiting.get()
        self._places.put(None)
        if item is _END or isinstance(item, _Failed):
            self._ended = True
            self._thread.join()
            if isinstance(item, _Failed):
                raise item.error
            raise StopIteration
        return cast("Item", item)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the thread and wait for it; what it still makes is thrown away."""
        self._stop.set()
        self._places.put(None)
        while not self._ended:
            last = self._waiting.get()
            self._ended = last is _END or isinstance(last, _Failed)
        self._thread.join()


def _work(
    items: Iterator[object],
    waiting: queue.SimpleQueue[object],
    places: queue.SimpleQueue[None],
    stop: threading.Event,
) -> None:
    outcome: object = _END
    try:
        for item in items:
            places.get()
            waiting.put(item)
            if stop.is_set():
                break
        close = getattr(items, "close", None)
        if close is not None:
            close()
    except BaseException as error:  # noqa: BLE001 - raised again where the items are used
        outcome = _Failed(error)
    waiting.put(outcome)
