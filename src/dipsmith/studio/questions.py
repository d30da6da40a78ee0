"""Questions: what researchers ask about the confidential rows, at which price; approve or decline, and what was answered.

Question files are strangers' input. They are read by the one strict reader, shown as text, and named by their digest: what
is approved is what was shown. The ledger is the record of what was decided; the page keeps nothing of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from dipsmith.confirm.answer import CARD, PAGE, QUESTION, SIGNATURE, AnswerCard, is_answer, verify_answer
from dipsmith.confirm.claim import Residuals, Roc, in_words
from dipsmith.confirm.confirm import METHOD, prepare
from dipsmith.confirm.design import VoteDesign
from dipsmith.confirm.page import answer_content
from dipsmith.confirm.question import LARGEST_FILE, Inquiry
from dipsmith.confirm.queue import QueuedQuestion, decline, list_questions
from dipsmith.errors import DipsmithError, InputError, SchemaError, UsageError
from dipsmith.privacy.account import PaidRun
from dipsmith.privacy.budget import decimal_text
from dipsmith.privacy.statement import Statement
from dipsmith.report.commands import command
from dipsmith.schema import Schema
from dipsmith.sources import source
from dipsmith.sources.header import check_header
from dipsmith.studio import jobs
from dipsmith.studio.accounts import account_of
from dipsmith.studio.budget_bar import budget_bar, symbol
from dipsmith.studio.fragments import fragment
from dipsmith.studio.plan import spending
from dipsmith.studio.run import charge_and_launch, paid_jobs
from dipsmith.studio.schema import schema_file, schema_of
from dipsmith.studio.views import Download, Screen, Visit
from dipsmith.studio.workspace import Workspace, name_files, write_whole
from dipsmith.synthesis.release import Release
from dipsmith.synthesis.writing import digest, require_absent

FOLDER = "questions"
SHOWN = 40
"""Open questions on one page; the next ones follow when these are decided."""
MOST_COEFFICIENTS = 200
"""Of a stranger's model that the server fits to the release while the page waits."""
HOW = {"direct": "an estimate from noisy sums", "counts": "noisy counts of what a model of the release predicts"}


def key_of(request: str) -> str:
    """A question's name in addresses, from its request id in the ledger."""
    return request.removeprefix("question ")


def title_of(question: Inquiry) -> str:
    """What is asked, as a question; a picture is a wish."""
    claim = question.parsed_claim
    picture = isinstance(claim, Residuals) or (isinstance(claim, Roc) and claim.area is None)
    return f"Show {in_words(claim)}." if picture else f"Is it so that {in_words(claim)}?"


def show(visit: Visit) -> Screen:
    """The page: what is open, what is being answered, what was decided."""
    workspace, project = visit.workspace, visit.project
    values: dict[str, Any] = {"project": project, "step": "questions", "command": "", "problem": ""}
    try:
        schema = schema_of(workspace, project)
        found = _incoming(workspace)
    except (SchemaError, InputError) as error:
        return Screen("questions.html", {**values, "problem": str(error)})
    account = account_of(workspace, project.name)
    held = _under_way(visit, account)
    ours = {q.question.request: q for q in reversed(found) if q.question and q.question.dataset == schema.name}
    waiting = [q for q in ours.values() if q.state == "open" and q.question and q.question.request not in held][::-1]
    files = Path(project.data or "FILE"), Path(schema_file(project)), Path(workspace.ledger_name)
    first = Path(FOLDER, waiting[0].path.name if waiting else "question.yaml")
    options = [w for o, f in zip(("--data", "--schema", "--ledger"), files, strict=True) for w in (o, f)]
    values |= {
        "open": [_facts(workspace, q, schema, account) for q in waiting[:SHOWN]],
        "more": max(0, len(waiting) - SHOWN),
        "others": sum(q.question is not None and q.question.dataset != schema.name for q in found),
        "answered": [_answer_line(workspace, run) for run in _answers(account)],
        "declined": [(q.words, q.problem) for q in ours.values() if q.state == "declined"],
        "lost": [
            (q.words, q.problem)
            for q in ours.values()
            if q.state == "charged" and q.question and q.question.request not in held
        ],
        "unreadable": [(_printable(q.path.name), q.problem) for q in found if q.question is None],
        "grace": workspace.grace,
        "command": command("confirm", first, *options, "--out", "answer/"),
        "state": {"project": project.id, **watch(visit)},
    }
    return Screen("questions.html", values)


def add(visit: Visit) -> Mapping[str, Any]:
    """Take a question file in: what is kept is written anew from what the strict reader understood."""
    text = visit.body.get("text")
    if not isinstance(text, str) or len(text) > LARGEST_FILE:
        raise InputError(f"a question is a text of at most {LARGEST_FILE:,} characters; choose another file")
    question = _read(text)
    folder = visit.workspace.inside(FOLDER)
    folder.mkdir(exist_ok=True)
    file = folder / f"question-{key_of(question.request)[:16]}.yaml"
    before = file.exists()
    if not before:
        write_whole(file, question.to_yaml().encode())
    return {"question": key_of(question.request), "before": before, "words": str(question)}


def approve(visit: Visit) -> Mapping[str, Any]:
    """Charge the ledger and start the worker; a question that was answered before is free, and one run at a time."""
    workspace, project = visit.workspace, visit.project
    queued = _find_question(visit)
    question = queued.question
    assert question is not None
    if queued.state == "answered":
        return {"answered": key_of(question.request)}
    account = account_of(workspace, project.name)
    if question.request in (held := _under_way(visit, account)):
        return {"job": held[question.request]}
    if queued.state != "open":
        raise UsageError(f"this question was {queued.state} already: {queued.problem}")
    schema = schema_of(workspace, project)
    file = workspace.inside(project.data)
    check_header(project.file, source(file).columns, schema.columns)
    prepare(question, schema)(source(file))
    out = f"answers/{project.id}-{key_of(question.request)[:16]}"
    target = workspace.inside(out)
    target.parent.mkdir(exist_ok=True)
    require_absent(target)
    # Two tabs that approve at once name the same job, and one of them makes it.
    earlier = sum(j.charge == question.request for j in jobs.list_jobs(workspace, project.id, "confirm"))
    job = f"question-{key_of(question.request)}-{earlier}"
    asked = {
        "request": question.request,
        "question": question.to_yaml(),
        "data": project.data,
        "schema": schema.to_dict(),
        "out": out,
        "says": f"{in_words(question.parsed_claim)}, {question.budget}",
    }
    return charge_and_launch(visit, job, "confirm", asked, schema, question.budget, question.request, METHOD)


def refuse(visit: Visit) -> Mapping[str, Any]:
    """Decline a question for a reason, on record."""
    queued, why = _find_question(visit), visit.text("why", 500)
    assert queued.question is not None
    if queued.state != "open":
        raise UsageError(f"this question was {queued.state} already; reload the page")
    decline(queued.question, visit.workspace.ledger, why)
    return {"declined": True}


def watch(visit: Visit) -> Mapping[str, Any]:
    """How far the answers are: of each question the newest attempt."""
    account = account_of(visit.workspace, visit.project.name)
    found: dict[str, dict[str, Any]] = {}
    for job, facts in paid_jobs(visit, account, "confirm"):
        found.setdefault(key_of(job.charge or ""), facts)
    left, granted = map(decimal_text, (account.remaining_units, account.granted_units))
    return {
        "jobs": [{**facts, "question": key} for key, facts in found.items()],
        "bar": budget_bar(account),
        "left": f"{symbol(account.currency)} = {left} of {granted} is left" if account.currency else "no grant yet",
    }


def prospects(visit: Visit) -> Mapping[str, Any]:
    """How likely the answer is to be clear, if the truth is what the release says; from the release alone."""
    question = _find_question(visit).question
    assert question is not None
    if question.measure == "counts":
        return {"says": "always: the noisy counts are the answer"}
    try:
        schema = schema_of(visit.workspace, visit.project)
        size = len(VoteDesign.of(question.formula, schema, question.family, dict(question.reference)).names)
        if size > MOST_COEFFICIENTS:
            return {"says": f"not told here: the analysis has {size:,} coefficients; `dipsmith ask --power` tells"}
        folder = _release_folder(visit.workspace, account_of(visit.workspace, visit.project.name), question)
        if folder is None:
            return {"says": "cannot be told: the release that it names does not lie in this folder"}
        return {"says": _prospect(folder, question)}
    except DipsmithError as error:
        return {"says": f"cannot be told: {_describe_problem(visit.workspace, error)}"}


def answer(visit: Visit) -> Screen:
    """The page of one answer."""
    workspace, project = visit.workspace, visit.project
    run, folder, signature = _answer_folder(visit)
    card = AnswerCard.load(folder)
    content = fragment(answer_content(card), f"/p/{project.id}/questions/{key_of(run.id)}/files")
    where = workspace.relative(folder)
    values = {
        "project": project,
        "step": "questions",
        "verdict": card.verdict,
        "testing": card.testing,
        "fragment": content.html,
        "key": key_of(run.id),
        "where": where,
        "signature": signature,
        "files": _files(card),
        "command": command("verify", Path(where), "--ledger", Path(workspace.ledger_name)),
    }
    return Screen("answer.html", values)


def download(visit: Visit) -> Download:
    """One file of an answer."""
    _, folder, _ = _answer_folder(visit)
    if visit.path["name"] not in _files(AnswerCard.load(folder)):
        raise InputError("the answer has no such file")
    return Download.of(folder / visit.path["name"])


def _under_way(visit: Visit, account: Statement) -> dict[str | None, str]:
    """By request id, the job that answers a question now, or that may still go on without a new charge."""
    found = paid_jobs(visit, account, "confirm")
    return {j.charge: j.id for j, facts in found if j.status in ("waiting", "running") or facts["can_resume"]}


def _incoming(workspace: Workspace) -> list[QueuedQuestion]:
    """The questions of the folder by file name, each problem as a line of the page."""
    folder = workspace.inside(FOLDER)
    found = list_questions(folder, workspace.ledger) if folder.is_dir() else []
    return [_clean(workspace, queued) for queued in found]


def _clean(workspace: Workspace, queued: QueuedQuestion) -> QueuedQuestion:
    if not queued.path.resolve().is_relative_to(workspace.folder):
        return QueuedQuestion(queued.path, None, "unreadable", problem="it leads out of the workspace; move it there")
    told = _describe_problem(workspace, queued.problem)
    return QueuedQuestion(queued.path, queued.question, queued.state, queued.cost, told, queued.answer)


def _find_question(visit: Visit) -> QueuedQuestion:
    """The question of the folder that an address names."""
    named = f"question {visit.path['question']}"
    found = (q for q in _incoming(visit.workspace) if q.question is not None and q.question.request == named)
    queued = next(found, None)
    if queued is None:
        raise InputError(f"there is no such question in '{FOLDER}'; reload the page")
    return queued


def _facts(workspace: Workspace, queued: QueuedQuestion, schema: Schema, account: Statement) -> dict[str, Any]:
    question = queued.question
    assert question is not None
    price, problem = spending(account, question.budget, schema, "The answer"), ""
    try:
        prepare(question, schema)
    except DipsmithError as error:
        problem = _describe_problem(workspace, error)
    known = any(question.release in run.digests for run in account.runs)
    return {
        "key": key_of(question.request),
        "file": _printable(queued.path.name),
        "question": question,
        "title": title_of(question),
        "how": HOW.get(question.measure, f"a noisy vote of {question.parts} random parts"),
        "reference": _printable(", ".join(f"{n} = {v}" for n, v in question.reference)),
        "known": known,
        "price": price,
        "problem": problem,
    }


def _answers(account: Statement) -> Iterator[PaidRun]:
    """Answers on record, the newest first."""
    return (run for run in reversed(account.runs) if run.method == METHOD and run.state == "finished")


def _answer_line(workspace: Workspace, run: PaidRun) -> dict[str, str]:
    """A line of the list: verdict and words, as far as the answer still lies where it was written."""
    try:
        card = AnswerCard.load(_sound(workspace, run))
    except DipsmithError as error:
        return {
            "key": "",
            "verdict": "answered",
            "words": key_of(run.id)[:16],
            "says": _describe_problem(workspace, error),
        }
    return {"key": key_of(run.id), "verdict": card.verdict, "words": str(card.question), "says": card.sentence}


def _files(card: AnswerCard) -> tuple[str, ...]:
    return (PAGE, CARD, QUESTION) if card.signer is None else (PAGE, CARD, QUESTION, SIGNATURE)


def _answer_folder(visit: Visit) -> tuple[PaidRun, Path, str]:
    """The whole answer that an address names, and who signed it."""
    named = f"question {visit.path['question']}"
    run = next((r for r in _answers(account_of(visit.workspace, visit.project.name)) if r.id == named), None)
    if run is None:
        raise InputError("there is no such answer; see the Questions page")
    folder = _sound(visit.workspace, run)
    checked = verify_answer(folder, visit.workspace.ledger)
    own = checked.known and f"signed by the key whose public part is {visit.workspace.ledger_name}.answers.pub"
    return run, folder, own or checked.signature


def _sound(workspace: Workspace, run: PaidRun) -> Path:
    """Where an answer lies; refused where it is gone, elsewhere or changed."""
    folder = Path(run.path).resolve()
    if not folder.is_relative_to(workspace.folder) or not is_answer(folder):
        raise InputError(f"its answer lies in '{workspace.relative(Path(run.path))}', which is not in the workspace")
    if digest(folder / CARD) not in run.digests:
        raise InputError(f"what lies in '{workspace.relative(folder)}' is not the answer on record; put it back")
    return folder


def _release_folder(workspace: Workspace, account: Statement, question: Inquiry) -> Path | None:
    for run in account.runs:
        folder = Path(run.path).resolve()
        if question.release in run.digests and folder.is_relative_to(workspace.folder):
            card = folder / "card.json"
            return folder if card.is_file() and digest(card) == question.release else None
    return None


@lru_cache(maxsize=256)
def _prospect(folder: Path, question: Inquiry) -> str:
    from dipsmith.confirm.ask import prospect

    found = prospect(Release.load(folder), question).expected
    if found is None:
        return "cannot be told: the release has no standard error for it"
    each = f"confirmed {_percent(found.confirmed)}, contradicted {_percent(found.contradicted)}"
    return f"{_percent(found.clear)}, if the truth is what the release says ({each})"


def _percent(share: float) -> str:
    """A chance in whole percent; never none and never all."""
    return "over 99 %" if share > 0.995 else "under 1 %" if share < 0.005 else f"{100 * share:.0f} %"


def _read(text: str) -> Inquiry:
    try:
        return Inquiry.from_text(text)
    except InputError as error:
        raise InputError(_printable(str(error))) from None


def _describe_problem(workspace: Workspace, problem: object) -> str:
    """A sentence about a stranger's file: one printable line, with files named as the pages name them."""
    return _printable(name_files(str(problem), workspace.folder))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)[:1000]
