"""The queue: questions that lie in a folder, what each would cost, and what was decided about it.

The ledger is the record: a question that was answered has its run there, one that was declined its row. The folder is only
where files arrive; a file that is no question is listed with the sentence that says why, so that nobody waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from dipsmith.confirm.answer import AnswerCard, is_answer
from dipsmith.confirm.confirm import prepare
from dipsmith.confirm.question import Inquiry
from dipsmith.errors import DipsmithError, UsageError
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.ledger import Ledger
from dipsmith.schema import Schema

ENDINGS: Final = (".yaml", ".yml", ".json")
MOST_FILES: Final = 1000

State = Literal["open", "answered", "declined", "charged", "unreadable"]
"""A question that was charged but not answered (its run was stopped) is never answered: it can be asked in another round."""


@dataclass(frozen=True)
class QueuedQuestion:
    """A question in the queue.

    `cost` is what an answer takes from the grant, `problem` why it cannot be answered (or the reason that it was declined
    for), and `answer` the folder of its answer, where there is one.
    """

    path: Path
    question: Inquiry | None
    state: State
    cost: Budget | None = None
    problem: str = ""
    answer: Path | None = None

    @property
    def words(self) -> str:
        """What is asked."""
        return self.path.name if self.question is None else str(self.question)


def list_questions(
    folder: str | Path, ledger: Ledger | str | Path, schema: Schema | None = None
) -> list[QueuedQuestion]:
    """The questions of a folder, by file name, with what was decided about each; with a schema also whether each can be asked.

    Privacy
    -------
    Reads question files and the ledger; no rows.
    """
    book = Ledger(ledger) if isinstance(ledger, str | Path) else ledger
    files = sorted(p for p in Path(folder).iterdir() if p.suffix.lower() in ENDINGS and p.is_file())
    return [_look_up(path, book, schema) for path in files[:MOST_FILES]]


def decline(question: Inquiry | str | Path, ledger: Ledger | str | Path, why: str, by: str | None = None) -> None:
    """Decline a question for a reason, on record; nothing is read or charged."""
    asked = Inquiry.read(question) if isinstance(question, str | Path) else question
    if not why.strip():
        raise UsageError("a question is declined for a reason; say why")
    book = Ledger(ledger) if isinstance(ledger, str | Path) else ledger
    book.decline(asked.dataset, asked.request, why.strip(), by)


def answers(folder: str | Path) -> list[tuple[Path, AnswerCard]]:
    """The answers that lie in a folder, by name."""
    return [
        (path, AnswerCard.load(path)) for path in sorted(Path(folder).iterdir()) if path.is_dir() and is_answer(path)
    ]


def _look_up(path: Path, book: Ledger, schema: Schema | None) -> QueuedQuestion:
    try:
        question = Inquiry.read(path)
    except DipsmithError as error:
        return QueuedQuestion(path, None, "unreadable", problem=str(error))
    run, declined = book.run(question.request), book.declined(question.request)
    if run is not None and run.state == "finished":
        return QueuedQuestion(path, question, "answered", question.budget, answer=Path(run.path))
    if run is not None and run.state in ("read", "failed"):
        lost = "its run was stopped after rows were read; the charge stays, and it can be asked in another round"
        return QueuedQuestion(path, question, "charged", question.budget, lost)
    if declined is not None:
        return QueuedQuestion(path, question, "declined", question.budget, declined.why)
    problem = ""
    if schema is not None:
        try:
            prepare(question, schema)
        except DipsmithError as error:
            problem = str(error)
    return QueuedQuestion(path, question, "open", question.budget, problem)
