"""Runs whose whole answer is one file, such as a learned schema or a noisy count: charged once, answered once.

The order of the steps is the guarantee: the whole budget is reserved before a row is read, and the file is written before
the ledger notes its digest. A request that was answered before gets its file again, and nothing is read or charged.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from dipsmith.errors import UsageError
from dipsmith.privacy.ledger import Ledger
from dipsmith.privacy.reservation import AlreadyReleased, Reservation
from dipsmith.synthesis.exit import Exit
from dipsmith.synthesis.writing import damage, require_absent, whole_file

Answer = TypeVar("Answer")


def require_target(book: Ledger, request: str, target: Path) -> None:
    """Refuse a file that exists, while nothing is spent; one that this request made already may be there."""
    known = book.run(request)
    if known is None or known.state != "finished":
        require_absent(target)


def answer_once(
    reserve: Callable[[], Reservation],
    answer: Callable[[Reservation], Answer],
    text_of: Callable[[Answer], str],
    answered_before: Callable[[AlreadyReleased], Answer],
    target: Path,
) -> tuple[Answer, str | None]:
    """Reserve, answer, write the file, note its digest: the answer, and the ledger's head after it.

    A request that was answered before gets that answer, with no head, since nothing is added to the ledger.

    Privacy
    -------
    `answer` is called after the reservation is durable and marked as read. A failure from then on keeps the charge.
    """
    with ExitStack() as unsettled:
        try:
            reservation = reserve()
        except AlreadyReleased as earlier:
            return answered_before(earlier), None
        unsettled.enter_context(reservation)
        reservation.read()
        found = answer(reservation)
        text = text_of(found)
        with whole_file(target) as work:
            Exit(work.parent).text(work.name, text, reservation.time)
        reservation.finish(sha256(text.encode()).hexdigest(), target)
    return found, reservation.head


def read_answer(earlier: AlreadyReleased, gone: str, changed: str) -> str:
    """The text of the file that a request was answered with; refused where it is gone, or is not what the ledger noted."""
    path = Path(earlier.path)
    if not path.is_file():
        raise UsageError(gone.format(path=path))
    text = path.read_bytes()
    if sha256(text).hexdigest() != earlier.digest:
        raise damage(changed.format(path=path))
    return text.decode()
