"""A request that comes back: the release that it bought, and no other.

A request id draws once. Asked again, it gives back what was released, which is found where the ledger says and
must be that release byte by byte: what lies in a folder may have been replaced since.
"""

from __future__ import annotations

from pathlib import Path

from dipsmith.errors import DamageError
from dipsmith.privacy.ledger import AlreadyReleased
from dipsmith.synthesis.release import Release
from dipsmith.synthesis.verify import verify
from dipsmith.synthesis.writing import digest


def released_before(earlier: AlreadyReleased) -> Release:
    """The release of a finished request; DamageError if something else lies in its place.

    Where nothing lies there the exception itself is raised: its message says where it was, and what to do.
    """
    folder = Path(earlier.path)
    if not folder.is_dir():
        raise earlier
    card = folder / "card.json"
    if not card.is_file() or digest(card) != earlier.digest:
        raise DamageError(
            f"request '{earlier.request_id}' was released to '{folder}', but what lies there is not that release (its "
            "card is not the ledger's); put it back, or use a new request id, which is a new charge"
        )
    verify(folder)
    return Release.load(folder)
