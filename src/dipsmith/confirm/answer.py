"""An answer: a card of its own, for machines and people, that says what was asked, what came out and what it cost.

Everything in it follows from the question, the noisy numbers and the ledger's record of the charge. Its folder holds
``question.yaml``, ``answer.html`` and ``answer.json``; the last has the digests of the others, and the ledger has its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from dipsmith.confirm.question import Inquiry
from dipsmith.confirm.verdict import Verdict
from dipsmith.errors import DamageError, InputError
from dipsmith.privacy.ledger import AlreadyReleased, Ledger
from dipsmith.synthesis.exit import Exit
from dipsmith.synthesis.writing import digest, whole_folder

FORMAT: Final = "dipsmith answer 1"
CARD: Final = "answer.json"
QUESTION: Final = "question.yaml"
PAGE: Final = "answer.html"
LARGEST: Final = 16 << 20


@dataclass(frozen=True)
class AnswerCard:
    """What a question was answered.

    `numbers` are the noisy numbers as they were drawn, and what each is; `probability` that the claim holds, None for a
    picture; `estimate` and `interval` of what was measured, named by `quantity`. `guarantee` says the price in words.
    """

    question: Inquiry
    verdict: Verdict
    sentence: str
    numbers: Mapping[str, list[int]]
    noise: str
    scale: float | None
    sensitivity: float | None
    quantity: str
    estimate: float | None
    interval: tuple[float, float] | None
    probability: float | None
    guarantee: str
    neighbours: str
    unit: str
    created: str
    request: str
    ledger_head: str | None
    version: str
    testing: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
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

    def save(self, folder: str | Path) -> tuple[Path, str]:
        """Write the folder, whole or not at all; refuses to overwrite. Gives the folder and the digest of the card."""
        from dipsmith.confirm.page import answer_page

        target = Path(folder)
        with whole_folder(target) as work:
            out = Exit(work)
            out.text(QUESTION, self.question.to_yaml())
            out.text(PAGE, answer_page(self))
            whole = replace(self, files={name: digest(work / name) for name in (PAGE, QUESTION)})
            out.text(CARD, whole.to_json())
            stamped = digest(work / CARD)
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
    """An answer that was checked."""

    folder: Path
    verdict: str
    ledger: bool
    guarantee: str

    def __str__(self) -> str:
        against = " and the ledger" if self.ledger else ""
        return f"'{self.folder}' is whole: question, page and card agree{against} ({self.guarantee}); {self.verdict}"


def is_answer(folder: str | Path) -> bool:
    """Whether a folder holds an answer."""
    return (Path(folder) / CARD).is_file()


def verify_answer(folder: str | Path, ledger: Ledger | str | Path | None = None) -> VerifiedAnswer:
    """Check every file's digest, that the page says what the card says, and the ledger's chain.

    Raises `DamageError` that names what does not agree.
    """
    from dipsmith.confirm.page import answer_page

    path = Path(folder)
    answer = AnswerCard.load(path)
    present = {p.name for p in path.iterdir()} - {CARD}
    if present != set(answer.files) or set(answer.files) != {PAGE, QUESTION}:
        wrong = sorted(present ^ {PAGE, QUESTION})
        raise DamageError(f"'{wrong[0] if wrong else CARD}' does not belong to the answer; get the answer again")
    for name, expected in sorted(answer.files.items()):
        if not (path / name).is_file() or digest(path / name) != expected:
            raise DamageError(f"'{name}' was changed after it was answered: its SHA-256 is not the card's")
    if Inquiry.read(path / QUESTION) != answer.question:
        raise DamageError(f"'{QUESTION}' is not the question on the card; get the answer again")
    if (path / PAGE).read_text("utf-8") != answer_page(replace(answer, files={})) and answer.version == _version():
        raise DamageError(f"'{PAGE}' does not say what the card says; get the answer again")
    book = Ledger(ledger) if isinstance(ledger, str | Path) else ledger
    if book is not None:
        book.verify(cards=[] if answer.ledger_head is None else [answer.ledger_head])
        if digest(path / CARD) not in book.issued(answer.request):
            raise DamageError(f"the ledger has no answer '{answer.request}' with this card; get the answer again")
    return VerifiedAnswer(path, answer.verdict, book is not None, answer.guarantee)


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
    kept = ("verdict", "sentence", "probability", "quantity", "estimate", "interval", "numbers", "guarantee", "request")
    return {name: value for name, value in asdict(answer).items() if name in kept}


def _version() -> str:
    from dipsmith.version import VERSION

    return VERSION
