"""An answer: a card of its own, for machines and people, that says what was asked, what came out and what it cost.

Everything in it follows from the question, the noisy numbers and the ledger's record of the charge. Its folder holds
``question.yaml``, ``answer.html`` and ``answer.json``; the last has the digests of the others, and the ledger has its own.
``signature.json`` is the steward's word for it: an Ed25519 signature of that digest (`dipsmith.privacy.signature`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from dipsmith.confirm.question import Inquiry
from dipsmith.confirm.verdict import Verdict
from dipsmith.errors import DamageError, InputError
from dipsmith.privacy.ledger import AlreadyReleased, Ledger
from dipsmith.privacy.signature import Signed
from dipsmith.synthesis.exit import Exit
from dipsmith.synthesis.writing import digest, whole_folder

FORMAT: Final = "dipsmith answer 1"
CARD: Final = "answer.json"
QUESTION: Final = "question.yaml"
PAGE: Final = "answer.html"
SIGNATURE: Final = "signature.json"
LARGEST: Final = 16 << 20


@dataclass(frozen=True)
class MeasuredClaim:
    """What noisy numbers say of a claim.

    `numbers` are the noisy numbers as they were drawn, and what each is; `probability` that the claim holds, None for a
    picture; `estimate` and `interval` of what was measured, named by `quantity`.
    """

    verdict: Verdict
    sentence: str
    quantity: str
    estimate: float | None = None
    interval: tuple[float, float] | None = None
    probability: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    numbers: Mapping[str, list[int]] = field(default_factory=dict)
    noise: str = ""
    scale: float | None = None
    sensitivity: float | None = None


@dataclass(frozen=True, kw_only=True)
class AnswerCard(MeasuredClaim):
    """What a question was answered: what was measured, at which price, and who vouches for it.

    `guarantee` says the price in words; `signer` is the public key that signs it, None where nobody does.
    """

    question: Inquiry
    guarantee: str
    neighbours: str
    unit: str
    created: str
    request: str
    ledger_head: str | None
    version: str
    signer: str | None = None
    testing: bool = False
    files: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """The text of ``answer.json``."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "question"}
        facts = {"format": FORMAT, "digest": self.question.digest, "question": self.question.facts(), **own}
        return json.dumps(facts, ensure_ascii=False, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> AnswerCard:
        """The answer back; DamageError where it is none."""
        try:
            facts = json.loads(text)
            if facts.pop("format") != FORMAT:
                raise ValueError
            stated = facts.pop("digest")
            question = Inquiry.from_text(json.dumps(facts.pop("question")))
            interval = facts.pop("interval")
            found = cls(question=question, interval=None if interval is None else tuple(interval), **facts)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InputError):
            raise DamageError(f"'{CARD}' is not what an answer holds; get the answer again") from None
        if stated != question.digest:
            raise DamageError("the digest of the question is not that of the question beside it; get the answer again")
        return found

    @classmethod
    def load(cls, folder: str | Path) -> AnswerCard:
        """Read an answer back from its folder."""
        path = Path(folder) / CARD
        if not path.is_file() or path.stat().st_size > LARGEST:
            raise InputError(f"'{folder}' is not an answer: it has no {CARD}; give the folder of --out")
        return cls.from_json(path.read_text("utf-8", errors="replace"))

    def save(self, folder: str | Path, sign: Callable[[str], Signed] | None = None) -> tuple[Path, str]:
        """Write the folder, whole or not at all; refuses to overwrite. Gives the folder and the digest of the card.

        `sign` makes the signature of that digest, by the key of `signer`.
        """
        from dipsmith.confirm.page import answer_page

        target = Path(folder)
        with whole_folder(target) as work:
            out = Exit(work)
            out.text(QUESTION, self.question.to_yaml())
            out.text(PAGE, answer_page(self))
            whole = replace(self, files={name: digest(work / name) for name in (PAGE, QUESTION)})
            out.text(CARD, whole.to_json())
            stamped = digest(work / CARD)
            if sign is not None:
                out.text(SIGNATURE, sign(stamped).to_json())
            out.seal(self.created)
        return target, stamped

    def __str__(self) -> str:
        return f"{self.verdict}: {self.sentence}"

    def _repr_html_(self) -> str:
        from dipsmith.confirm.page import answer_page
        from dipsmith.report.sections import frame

        return frame(answer_page(self))


@dataclass(frozen=True)
class VerifiedAnswer:
    """An answer that was checked, perhaps also against a ledger and a known public key.

    `signer` is the key that signed it, None where nobody did; `known` whether that is the key that was given.
    """

    folder: Path
    verdict: str
    ledger: bool
    guarantee: str
    signer: str | None
    known: bool

    @property
    def signature(self) -> str:
        """Who signed it, in words."""
        if self.signer is None:
            return "NOT SIGNED: nobody vouches for it"
        whose = "the steward's, as far as you know it" if self.known else "compare it with the steward's, by --public"
        return f"signed by key {self.signer[:16]}… ({whose})"

    def __str__(self) -> str:
        against = " and the ledger" if self.ledger else ""
        whole = f"'{self.folder}' is whole: question, page and card agree{against} ({self.guarantee}); {self.verdict}"
        return f"{whole}; {self.signature}"


def is_answer(folder: str | Path) -> bool:
    """Whether a folder holds an answer."""
    return (Path(folder) / CARD).is_file()


def verify_answer(
    folder: str | Path, ledger: Ledger | str | Path | None = None, public: str | None = None
) -> VerifiedAnswer:
    """Check every file's digest, that the page says what the card says, its signature, and the ledger's chain.

    `public` is the steward's public key, as `read_public` gives it: an answer without its signature is refused. Without one,
    that of the ledger counts; without a ledger too, the signature is checked against the key that the card names.

    Raises `DamageError` that names what does not agree.
    """
    from dipsmith.confirm.page import answer_page
    from dipsmith.version import VERSION

    path = Path(folder)
    answer = AnswerCard.load(path)
    _require_files(path, answer)
    if Inquiry.read(path / QUESTION) != answer.question:
        raise DamageError(f"'{QUESTION}' is not the question on the card; get the answer again")
    if (path / PAGE).read_text("utf-8") != answer_page(replace(answer, files={})) and answer.version == VERSION:
        raise DamageError(f"'{PAGE}' does not say what the card says; get the answer again")
    signed = _require_signature(path, answer, public)
    book = Ledger(ledger) if isinstance(ledger, str | Path) else ledger
    if book is not None:
        book.verify(cards=[] if answer.ledger_head is None else [answer.ledger_head])
        if digest(path / CARD) not in book.issued(answer.request):
            raise DamageError(f"the ledger has no answer '{answer.request}' with this card; get the answer again")
        if signed is not None and signed.ledger != book.id:
            raise DamageError(f"'{SIGNATURE}' is for a ledger with another id; get the answer again")
        public = book.answer_key.public if public is None else public
    known = answer.signer is not None and answer.signer == public
    return VerifiedAnswer(path, answer.verdict, book is not None, answer.guarantee, answer.signer, known)


def _require_files(path: Path, answer: AnswerCard) -> None:
    """Refuse files that the card does not name, that it names and are not there, or that were changed."""
    allowed = {CARD, PAGE, QUESTION, *([] if answer.signer is None else [SIGNATURE])}
    wrong = sorted({p.name for p in path.iterdir()} ^ allowed)
    if wrong or set(answer.files) != {PAGE, QUESTION}:
        what = wrong[0] if wrong else CARD
        told = "is missing from" if what in allowed and wrong else "does not belong to"
        raise DamageError(f"'{what}' {told} the answer; get the answer again")
    for name, expected in sorted(answer.files.items()):
        if not (path / name).is_file() or digest(path / name) != expected:
            raise DamageError(f"'{name}' was changed after it was answered: its SHA-256 is not the card's")


def _require_signature(path: Path, answer: AnswerCard, public: str | None) -> Signed | None:
    """The signature, where there is one; refuses one that is not of this card by the key it names, or by the key that is given."""
    if answer.signer is None:
        if public is not None:
            raise DamageError("the answer is not signed, although the steward's key was given; get a signed one")
        return None
    try:
        signed = Signed.read(path / SIGNATURE)
    except InputError:
        raise DamageError(f"'{SIGNATURE}' is not a signature; get the answer again") from None
    content = {"request": answer.request, "card": digest(path / CARD)}
    if signed.kind != "answered" or signed.content != content or not signed.valid(answer.signer):
        raise DamageError(
            f"'{SIGNATURE}' is not a signature of this card by the key that it names; get the answer again"
        )
    if public is not None and answer.signer != public:
        raise DamageError(
            f"the answer is signed by key {answer.signer[:16]}…, not by the key that was given, {public[:16]}…; ask the steward"
        )
    return signed


def answered_before(earlier: AlreadyReleased) -> tuple[AnswerCard, Path]:
    """The answer that a question bought, found where the ledger says; a question is answered once."""
    folder = Path(earlier.path)
    if not folder.is_dir():
        raise earlier
    if not is_answer(folder) or digest(folder / CARD) != earlier.digest:
        raise DamageError(
            f"{earlier.request_id} was answered in '{folder}', but what lies there is not that answer; put it back, or ask "
            "again with another round, which is a new charge"
        )
    verify_answer(folder)
    return AnswerCard.load(folder), folder


def as_facts(answer: AnswerCard) -> dict[str, Any]:
    """What programs want to know first."""
    first = ("verdict", "sentence", "probability", "quantity", "estimate", "interval", "numbers", "guarantee")
    return {name: getattr(answer, name) for name in (*first, "request", "signer")}
