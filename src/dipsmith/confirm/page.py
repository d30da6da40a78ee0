"""The page of an answer: the question in words, the verdict in one sentence, a picture, what it cost."""

from __future__ import annotations

import numpy as np

from dipsmith.confirm.answer import AnswerCard
from dipsmith.confirm.picture import density_picture
from dipsmith.confirm.verdict import LEVEL, SURE, posterior
from dipsmith.privacy.poll import poll_sensitivity
from dipsmith.privacy.value_question import noise_of
from dipsmith.report.content import Block, Facts, Figure, Page, Section, Table
from dipsmith.report.sections import page

NOT_PRIVATE = "NOT PRIVATE: made with a known seed, for tests"


def answer_page(answer: AnswerCard) -> str:
    """The page, from the answer alone."""
    question = answer.question
    asked = [("Claim", question.parsed.words), ("Analysis", " ".join(question.formula.split()))]
    asked += [("Compared with", ", ".join(f"{n} = {v}" for n, v in question.reference))] if question.reference else []
    asked += [("Asked by", question.by)] if question.by else []
    asked += [("Why", question.why)] if question.why else []
    asked += [("Release", question.release)]
    content = Page(
        title=f"Answer: {answer.verdict}",
        lead=(answer.sentence, _meaning(answer)),
        sections=(
            Section("What was asked", (Facts(tuple(asked)),)),
            Section("What came out", tuple(_blocks(answer))),
            Section("What it cost", (Facts(tuple(_cost(answer))), _limits(answer))),
        ),
        stamp=NOT_PRIVATE if answer.testing else "",
        footer=f"dipsmith {answer.version}. Check this answer: dipsmith verify FOLDER",
    )
    return page(content)


def _meaning(answer: AnswerCard) -> str:
    return (
        f"The answer is differentially private ({answer.guarantee}): it hardly depends on any one unit of the confidential "
        "table, and its price adds to that of every other release and answer about it."
    )


def _blocks(answer: AnswerCard) -> list[Block]:
    found: list[Block] = []
    if answer.question.measure == "poll":
        found.append(_poll_figure(answer))
    rows: list[tuple[str, str | float]] = [
        (f"{name} (noisy)", ", ".join(f"{v:,}" for v in values))
        for name, values in answer.numbers.items()
        if len(values) < 9
    ]
    if answer.estimate is not None:
        rows.append((answer.quantity, f"{answer.estimate:.4g}"))
    if answer.interval is not None:
        rows.append((f"{LEVEL:.0%} interval", f"{answer.interval[0]:.4g} to {answer.interval[1]:.4g}"))
    if answer.probability is not None:
        rows.append(("Probability that the claim holds", f"{answer.probability:.4f}"))
    found.append(Table.of("What was measured", ("quantity", "value"), rows, _note(answer)))
    return found


def _note(answer: AnswerCard) -> str:
    law = f"Noise: {answer.noise} of scale {answer.scale:.4g}, drawn once."
    if answer.question.measure != "poll":
        return law
    return (
        f"{law} The units were divided at random into {answer.question.parts} parts by a secret key, the analysis was fitted in "
        "each, and a part that cannot be fitted answers by its number. Before, every share is as likely as any other."
    )


def _poll_figure(answer: AnswerCard) -> Figure:
    question = answer.question
    numbers = [v for values in answer.numbers.values() for v in values]
    parts = question.parts or 0
    law = noise_of(poll_sensitivity(answer.neighbours, len(numbers) + 1, question.budget), question.budget)
    known = posterior(numbers, parts, law)
    ends = ("fewer parts agree", "more parts agree")
    what = "share of parts in which the claim holds"
    svg = density_picture(known.grid, known.prior, known.density, threshold=0.5, ends=ends, axis=what)
    low, high = known.interval
    mode = float(known.grid[int(np.argmax(known.density))])
    return Figure(
        title=f"Does the claim hold in most of {parts} random parts?",
        svg=svg,
        caption=(
            f"What is known of the share of parts in which the claim holds: before the answer (grey) and after it (blue). "
            f"{parts} parts, {question.budget}; the thin line is one half."
        ),
        alternative=(
            f"Density of the {what}, before and after. After the answer it is highest at {mode:.2f}; the {LEVEL:.0%} interval "
            f"is {low:.2f} to {high:.2f}; the threshold is 0.5, and the probability of the claim is {known.probability:.3f}."
        ),
    )


def _cost(answer: AnswerCard) -> list[tuple[str, str]]:
    found = [
        ("Price", answer.guarantee),
        ("Neighbours", answer.neighbours),
        ("Unit of protection", answer.unit),
        ("One unit moves the numbers by at most", f"{answer.sensitivity:g}"),
        ("Charged", f"{answer.created}, as {answer.request}"),
    ]
    return [*found, *([] if answer.ledger_head is None else [("Ledger head", answer.ledger_head)])]


def _limits(answer: AnswerCard) -> str:
    return (
        f"A verdict needs a probability above {SURE:g} (confirmed) or below {1 - SURE:.2g} (contradicted). The same question "
        "asked again returns this answer and costs nothing; any other question is a new charge."
    )
