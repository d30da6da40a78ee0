"""Sealing: the ledger knows a source again, and tells nobody what is in it.

One file under two names would be granted twice. So a reservation keeps a *seal* of its source:
HMAC-SHA256 of the source's digest and a fresh salt, under a key of 32 random bytes that lies beside the
ledger (``budget.db.key``, readable by its owner) and never in it.

Guarantee: to whoever lacks the key, seals are random bytes, whatever the rows are (HMAC-SHA256 is a
pseudorandom function), and with them the ledger and its heads on public cards. A plain digest would let
anyone who knows all rows but one try out the last. The salt hides even whether two runs read one file.
A lost key is no damage: sources sealed by it are no longer recognised, which is said.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dipsmith.errors import LostKey, OutputError

SIZE = 32


@dataclass(frozen=True, slots=True)
class Seal:
    """A source as the ledger keeps it: which key sealed it, the salt, the tag; all in hexadecimal."""

    key: str
    salt: str
    tag: str

    @classmethod
    def from_record(cls, record: Mapping[str, str]) -> Seal:
        """The seal back from a ledger's record of it."""
        seal = cls(record["key"], record["salt"], record["tag"])
        if [len(bytes.fromhex(part)) for part in (seal.key, seal.salt, seal.tag)] != [8, 16, 32]:
            raise ValueError("a seal has a key of 8, a salt of 16 and a tag of 32 bytes")
        return seal


@dataclass(frozen=True, slots=True)
class Key:
    """The secret that seals sources.

    >>> key = Key(bytes(32))
    >>> seal = key.seal("ab" * 32)
    >>> key.opens(seal, "ab" * 32), key.opens(seal, "cd" * 32), Key(b"1" * 32).opens(seal, "ab" * 32)
    (True, False, False)
    """

    secret: bytes = field(repr=False)

    @property
    def id(self) -> str:
        """Which key it is: says whether a seal can be compared, and nothing about the secret."""
        return self._tag("key", "")[:16]

    def seal(self, digest: str) -> Seal:
        """Seal the digest of a source."""
        salt = secrets.token_hex(16)
        return Seal(self.id, salt, self._tag(salt, digest))

    def opens(self, seal: Seal, digest: str) -> bool:
        """Whether a seal is that of a source with this digest, sealed by this key."""
        return seal.key == self.id and hmac.compare_digest(seal.tag, self._tag(seal.salt, digest))

    def _tag(self, salt: str, digest: str) -> str:
        return hmac.new(self.secret, f"{salt}|{digest}".encode(), hashlib.sha256).hexdigest()


class KeyFile:
    """The key beside a ledger, made when it is first needed; a ledger in memory (None) keeps its key there."""

    def __init__(self, ledger: Path | None) -> None:
        self.path = None if ledger is None else Path(f"{ledger}.key")
        self._memory = Key(secrets.token_bytes(SIZE))

    def key(self, seals: Iterable[Seal | None]) -> Key | None:
        """The key, None if it cannot be used; warns if the given seals cannot be compared with it.

        Called while the ledger's write lock is held: of two processes, one makes the key.
        """
        if self.path is None:
            return self._memory
        try:
            key = _read(self.path)
        except FileNotFoundError:
            key = Key(secrets.token_bytes(SIZE))
            _write(key, self.path)
        if key is None:
            self._say("cannot be read or is no key, so that the source of this run is not noted")
        elif any(seal is not None and seal.key != key.id for seal in seals):
            self._say("is not the key of earlier runs, whose sources cannot be recognised")
        return key

    def present(self) -> Key | None:
        """The key, where there is one that can be read: enough to know a source again, silently."""
        try:
            return self._memory if self.path is None else _read(self.path)
        except FileNotFoundError:
            return None

    def _say(self, what: str) -> None:
        warnings.warn(
            f"key '{self.path}' {what}; restore it, and see to it that no data are granted under two names",
            LostKey,
            stacklevel=6,
        )


def _read(path: Path) -> Key | None:
    """The key in a file, None if what lies there cannot be read or is no key; FileNotFoundError if nothing does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError:
        return None
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        secret = os.read(descriptor, SIZE + 1) if regular else b""
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return Key(secret) if len(secret) == SIZE else None


def _write(key: Key, path: Path) -> None:
    """Write a key into a new file that only its owner can read, durably; never over anything, never through a link."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(key.secret)
                file.flush()
                os.fsync(descriptor)
        except OSError:
            path.unlink()
            raise
    except OSError as error:
        raise OutputError(f"key '{path}' cannot be written ({error.strerror}): nothing was charged") from None
