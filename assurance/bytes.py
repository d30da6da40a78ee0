"""The bytes of a release: what a stranger who holds the folder can compare, to the last bit.

A release is a function of the schema, the budget and the noisy answers. With the answers frozen, the bytes of every
file must therefore stay the same when the private table is put in another order, written in another form, or replaced
by a neighbour. `released` reads a folder for such a comparison. The only values that may differ between two runs
are `EXCEPTED`, each by its name on the card; wherever else one of them is repeated, it is masked as that very value, and
so are the digests of the files that repeat it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any, Final

EXCEPTED: Final = {
    "created": "when the budget was reserved",
    "request": "the id of the run, given or drawn before anything is read",
    "reservation": "the same id, as the ledger knows it",
    "ledger_head": "a digest over the ledger's times and ids",
}
"""Fields of card.json that may differ although the answers are the same, and why each is no function of a row."""

REPEATED: Final = ("report.html", "card.html")
"""Files that repeat excepted values, in the order in which their digests enter one another."""

CANARY: Final = "secret-canary"
"""Put where a private file may hold something besides its rows; never in a release."""


def released(folder: Path) -> dict[str, bytes]:
    """Every file of a release by its name from there, the excepted values masked.

    Raises
    ------
    ValueError
        If card.json is not written in its one canonical form: what a parser skips could tell something too.
    """
    found = {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }
    card: dict[str, Any] = json.loads(found["card.json"])
    if _canonical(card) != found["card.json"]:
        raise ValueError("card.json is not in canonical form")
    values = {str(card[name]): name for name in EXCEPTED if card.get(name) is not None}
    for name in (n for n in REPEATED if n in found):
        was = sha256(found[name]).hexdigest()
        found[name] = _masked(found[name], values)
        values[was] = f"digest of {name}"
    masked = {k: EXCEPTED.get(k, v) if v is not None else None for k, v in card.items()}
    masked["files"] = {name: values.get(digest, digest) for name, digest in card["files"].items()}
    found["card.json"] = _canonical(masked)
    return found


def differences(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> list[str]:
    """In what two releases differ, file by file; empty when they are the same.

    >>> differences({"a": b"xy", "b": b""}, {"a": b"xz"})
    ['a: differs from byte 1 on (2 and 2 bytes)', 'b: in one release only']
    """
    found = []
    for name in sorted({*one, *other}):
        if name not in one or name not in other:
            found.append(f"{name}: in one release only")
        elif one[name] != other[name]:
            a, b = one[name], other[name]
            at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            found.append(f"{name}: differs from byte {at} on ({len(a)} and {len(b)} bytes)")
    return found


@contextmanager
def frozen_secrets() -> Iterator[None]:
    """Fixed bytes in place of the secrets that a noise seed does not reach: which rows beyond `max_rows` count, workers' keys."""
    drawn = secrets.token_bytes
    secrets.token_bytes = _fixed_bytes
    try:
        yield
    finally:
        secrets.token_bytes = drawn


def _fixed_bytes(nbytes: int | None = None) -> bytes:
    return bytes(range(nbytes or 32))


def _canonical(card: Mapping[str, Any]) -> bytes:
    return (json.dumps(card, ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode()


def _masked(data: bytes, values: Mapping[str, str]) -> bytes:
    for value, name in values.items():
        data = data.replace(escape(value).encode(), f"‹{name}›".encode())
    return data
