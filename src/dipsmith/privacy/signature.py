"""Signed statements: who may grant need not be who may spend, and an answer says whose it is.

A ledger can be told, once, that its grants need the signature of a given Ed25519 key. The key's holder
signs a grant on any machine, without the ledger; whoever runs the ledger hands it in. A signature binds
the ledger's id, the dataset, the amount, who and why, the private columns if they are stated, and a number
used once, so that it counts in one ledger, for one grant, one time. Another key may take the office over
by a signature of the one before.

An answer to a question is signed too: the digest of its card, for the ledger that was charged. Its key lies beside the ledger,
made when it is first needed (``budget.db.answers.key``); who is given the public part (``budget.db.answers.pub``) can tell the
steward's answers from others. No statement of one kind counts as another.

Guarantee: after the row that names the signatory, no row adds budget without a signature of the key in
office at that row; the books refuse such a row whenever they are read. Who can rewrite the whole file can
also forget the signatory: keep the head of that row elsewhere (`dipsmith ledger head`).
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dipsmith.errors import InputError, OutputError, UsageError
from dipsmith.privacy.account import grant_record
from dipsmith.privacy.budget import Budget

Kind = Literal["granted", "signatory", "answered"]

_FORMAT = "dipsmith signed statement 1"
_FIELDS = {
    "granted": {"name", "budget", "stated", "by", "why"},
    "signatory": {"public"},
    "answered": {"request", "card"},
}
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Signed:
    """A statement for one ledger, with a signature: a grant, whose signature counts from now on, or an answer.

    The first two become a ledger row of their `kind` and `content`, in the ledger of that id, a single time (`nonce`); the
    signature is Ed25519, in hexadecimal, of all of these.
    """

    kind: Kind
    ledger: str
    content: Mapping[str, Any]
    nonce: str
    signature: str

    @property
    def row(self) -> dict[str, Any]:
        """The content of the ledger row: the statement's own, and what proves it."""
        return {**self.content, "signed": {"nonce": self.nonce, "signature": self.signature}}

    def valid(self, public: str) -> bool:
        """Whether the signature is of this statement and this public key."""
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
            key.verify(bytes.fromhex(self.signature), _message(self.kind, self.ledger, self.content, self.nonce))
        except (InvalidSignature, ValueError, TypeError):
            return False
        return True

    def to_json(self) -> str:
        """The statement as the text of a file."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, ensure_ascii=False, indent=1) + "\n"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the statement as JSON into a new file."""
        _write_new(Path(path), self.to_json().encode(), 0o644)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Signed:
        """Read a statement; whether its signature is right, only the ledger can say."""
        try:
            facts = json.loads(_read(Path(path)))
            if facts["format"] != _FORMAT or set(facts["content"]) - {"private"} != _FIELDS[facts["kind"]]:
                raise ValueError
            return cls(**{field.name: facts[field.name] for field in fields(cls)})
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError(
                f"'{path}' is not a signed grant; `dipsmith ledger sign` makes one on the signatory's machine"
            ) from None


def signed_from(kind: Kind, ledger: str, row: Mapping[str, Any]) -> Signed:
    """The statement back from the content of a ledger row."""
    proof = row["signed"]
    content = {key: value for key, value in row.items() if key != "signed"}
    return Signed(kind, ledger, content, proof["nonce"], proof["signature"])


def sign_grant(
    key: Ed25519PrivateKey,
    ledger: str,
    name: str,
    budget: Budget,
    *,
    by: str | None = None,
    why: str = "",
    private: Sequence[str] | None = None,
) -> Signed:
    """Sign a grant for the ledger of a given id; parameters as for `Ledger.grant`."""
    return _sign(key, "granted", ledger, grant_record(name, budget, by, why, private))


def sign_successor(key: Ed25519PrivateKey, ledger: str, public: str) -> Signed:
    """Sign that another public key (in hexadecimal) takes the office over."""
    return _sign(key, "signatory", ledger, {"public": public})


def sign_answer(key: Ed25519PrivateKey, ledger: str, request: str, card: str) -> Signed:
    """Sign the digest of an answer's card; it is its own nonce, so that the same card has the same signature."""
    return _sign(key, "answered", ledger, {"request": request, "card": card}, card)


def make_keys(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Draw a pair of keys and write ``NAME.key``, for its owner's eyes only, and ``NAME.pub``; never overwrites."""
    key = Ed25519PrivateKey.generate()
    secret, public = Path(f"{os.fspath(path)}.key"), Path(f"{os.fspath(path)}.pub")
    pem, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    unlocked = serialization.NoEncryption()
    if public.exists() or public.is_symlink():
        raise OutputError(f"'{public}' exists already: choose another name")
    _write_new(secret, key.private_bytes(pem, serialization.PrivateFormat.PKCS8, unlocked), 0o600)
    _write_new(public, key.public_key().public_bytes(pem, form), 0o644)
    return secret, public


def read_key(path: str | os.PathLike[str]) -> Ed25519PrivateKey:
    """The private key in a PEM file."""
    try:
        key = serialization.load_pem_private_key(_read(Path(path)), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(
            f"'{path}' is not an Ed25519 private key without a passphrase; `dipsmith ledger keygen` makes one"
        )
    return key


def read_public(path: str | os.PathLike[str]) -> str:
    """The public key in a PEM file, in hexadecimal as the ledger keeps it."""
    try:
        key = serialization.load_pem_public_key(_read(Path(path)))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"'{path}' is not an Ed25519 public key; `dipsmith ledger keygen` makes one")
    return _hexadecimal(key)


def public_of(key: Ed25519PrivateKey) -> str:
    """The public part of a key, in hexadecimal."""
    return _hexadecimal(key.public_key())


class AnswerKey:
    """The key beside a ledger that signs its answers, made when it is first needed; a ledger in memory (None) keeps it there."""

    def __init__(self, ledger: Path | None) -> None:
        self.stem = None if ledger is None else f"{ledger}.answers"
        self._memory: Ed25519PrivateKey | None = None

    def key(self) -> Ed25519PrivateKey:
        """The key; called while the ledger's write lock is held: of two processes, one makes it."""
        if self.stem is None:
            self._memory = self._memory or Ed25519PrivateKey.generate()
            return self._memory
        secret, public = Path(f"{self.stem}.key"), Path(f"{self.stem}.pub")
        if not secret.exists() and not secret.is_symlink():
            if public.exists():
                raise InputError(
                    f"'{secret}' is gone, whose public part is '{public}': put it back, or move '{public}' away to begin with "
                    "a new key, and tell those who know the old one"
                )
            make_keys(self.stem)
        return read_key(secret)

    @property
    def public(self) -> str | None:
        """The public part, in hexadecimal; None where no answer was signed yet."""
        if self.stem is None:
            return None if self._memory is None else public_of(self._memory)
        public = Path(f"{self.stem}.pub")
        return read_public(public) if public.is_file() else None


def check_public(public: str) -> str:
    """The public key itself, if it is 32 bytes in lower-case hexadecimal."""
    if not isinstance(public, str) or len(public) != 64 or not set(public) <= set("0123456789abcdef"):
        raise UsageError("a public key is 64 hexadecimal digits, as read_public('office.pub') gives them")
    return public


def _hexadecimal(key: Ed25519PublicKey) -> str:
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()


def _sign(
    key: Ed25519PrivateKey, kind: Kind, ledger: str, content: Mapping[str, Any], nonce: str | None = None
) -> Signed:
    nonce = secrets.token_hex(16) if nonce is None else nonce
    signature = key.sign(_message(kind, ledger, content, nonce)).hex()
    return Signed(kind, ledger, content, nonce, signature)


def _message(kind: str, ledger: str, content: Mapping[str, Any], nonce: str) -> bytes:
    parts = [_FORMAT, kind, ledger, dict(content), nonce]
    return json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError as error:
        raise InputError(f"'{path}' cannot be read ({error.strerror}): check the path") from None


def _write_new(path: Path, content: bytes, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except FileExistsError:
        raise OutputError(f"'{path}' exists already: choose another name") from None
    except OSError as error:
        raise OutputError(f"'{path}' cannot be written ({error.strerror})") from None
