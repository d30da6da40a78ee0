"""The page of an answer: the question in words, the verdict in one sentence, a picture, what it cost."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dipsmith.confirm.answer import AnswerCard
from dipsmith.confirm.claim import AgreesWithRelease, Between, OneSided, Residuals, Roc, in_words
from dipsmith.confirm.picture import curve_picture, density_picture, estimate_picture, grid_picture
from dipsmith.confirm.verdict import LEVEL, SURE, in_three_digits, posterior
from dipsmith.confirm.votes import interval_of
from dipsmith.privacy.calibration import noise_of
from dipsmith.report.content import Block, Cell, Facts, Figure, Page, Section, Table
from dipsmith.report.sections import page

NOT_PRIVATE = "NOT PRIVATE: made with a known seed, for tests"
LIMITS = (
    f"A verdict needs a probability above {SURE:g} (confirmed) or below {1 - SURE:.2g} (contradicted). The same question "
    "asked again returns this answer and costs nothing; any other question is a new charge."
)


def answer_page(answer: AnswerCard) -> str:
    """The page, from the answer alone."""
    return page(answer_content(answer))


def answer_content(answer: AnswerCard) -> Page:
    """What the page says."""
    question = answer.question
    asked = [("Claim", in_words(question.parsed)), ("Analysis", " ".join(question.formula.split()))]
    asked += [("Compared with", ", ".join(f"{n} = {v}" for n, v in question.reference))] if question.reference else []
    asked += [("Asked by", question.by)] if question.by else []
    asked += [("Why", question.why)] if question.why else []
    asked += [("Release", question.release)]
    meaning = (
        f"The answer is differentially private ({answer.guarantee}): it hardly depends on any one unit of the confidential "
        "table, and its price adds to that of every other release and answer about it."
    )
    return Page(
        title=f"Answer: {answer.verdict}",
        lead=(answer.sentence, meaning),
        sections=(
            Section("What was asked", (Facts(tuple(asked)),)),
            Section("What came out", tuple(_blocks(answer))),
            Section("What it cost", (Facts(tuple(_cost(answer))), LIMITS)),
        ),
        stamp=NOT_PRIVATE if answer.testing else "",
        footer=f"dipsmith {answer.version}. Check this answer: dipsmith verify FOLDER --public STEWARD.pub",
    )


def _blocks(answer: AnswerCard) -> list[Block]:
    found: list[Block] = []
    if answer.question.measure == "poll":
        found.append(_poll_figure(answer))
    if answer.question.measure == "direct" and answer.interval is not None:
        found.append(_estimate_figure(answer))
    if isinstance(question := answer.question.parsed, Residuals | Roc):
        found.append(_grid_figure(answer) if isinstance(question, Residuals) else _curve_figure(answer))
    rows: list[tuple[str, str | float]] = [
        (f"{name} (noisy)", ", ".join(f"{v:,}" for v in values))
        for name, values in answer.numbers.items()
        if len(values) < 9
    ]
    if answer.estimate is not None:
        rows.append((answer.quantity, f"{answer.estimate:.4g}"))
    if answer.interval is not None:
        of_what = "" if answer.estimate is not None else f"{answer.quantity}, "
        rows.append((f"{of_what}{LEVEL:.0%} interval", f"{answer.interval[0]:.4g} to {answer.interval[1]:.4g}"))
    if answer.probability is not None:
        rows.append(("Probability that the claim holds", in_three_digits(answer.probability)))
    found.append(Table.of("What was measured", ("quantity", "value"), rows, _note(answer)) if rows else _note(answer))
    found += [f.numbers for f in found if isinstance(f, Figure) and f.numbers is not None]
    return found


def _note(answer: AnswerCard) -> str:
    scale = "on every sum" if answer.scale is None else f"of scale {answer.scale:.4g}"
    law = f"Noise: {answer.noise} {scale}, drawn once."
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
    law = noise_of(Fraction(answer.sensitivity or 0), question.budget)
    known = posterior(numbers, parts, law)
    low, high = known.interval
    if len(numbers) == 1:
        what, ends = "share of parts in which the claim holds", ("not in most parts", "in most parts")
        densities, means = {"after": known.densities[0]}, f"the {LEVEL:.0%} interval is {low:.2f} to {high:.2f}"
        key = "after it (blue)"
    else:
        what, ends = "share of parts on one side of the interval", ("no majority", "majority")
        densities = dict(zip(("below", "above"), known.densities, strict=True))
        means = "the claim holds where neither side has a majority"
        key = "after it, of the parts below the interval (blue) and above it (vermilion)"
    modes = ", ".join(f"{name} {float(known.grid[int(np.argmax(d))]):.2f}" for name, d in densities.items())
    return Figure(
        title=f"Does the claim hold in most of {parts} random parts?",
        svg=density_picture(known.grid, known.prior, densities, threshold=0.5, ends=ends, axis=what),
        caption=(
            f"What is known of the {what}: before the answer (grey) and {key}. {parts} parts, {question.budget}; the thin "
            "line is one half."
        ),
        alternative=(
            f"Density of the {what}, before and after the answer. Highest at: {modes}; {means}; the threshold is 0.5, and "
            f"the probability of the claim is {in_three_digits(known.probability)}."
        ),
    )


def _estimate_figure(answer: AnswerCard) -> Figure:
    """The estimate's own law, with the thresholds of the claim."""
    claim = answer.question.parsed
    value, error = answer.estimate or 0.0, float(answer.details["std_error"])
    ends = [claim.value] if isinstance(claim, OneSided) else []
    if isinstance(claim, Between | AgreesWithRelease):
        ends = [*interval_of(claim, answer.question.known)]
    told = ", ".join(f"{e:.4g}" for e in ends)
    return Figure(
        title=f"Where does {answer.quantity} lie?",
        svg=estimate_picture(value, error, ends, answer.quantity),
        caption=(
            f"What is known of {answer.quantity} after the answer (blue); before it every value was as likely as any other "
            f"(grey). The thin line is what the claim is about: {told}. {answer.question.budget}."
        ),
        alternative=(
            f"Bell curve centred at {value:.4g} with standard error {error:.2g}; what the claim is about: {told}; the "
            f"probability of the claim is {in_three_digits(answer.probability or 0.0)}."
        ),
    )


def _grid_figure(answer: AnswerCard) -> Figure:
    first, second = (list(answer.details[f"{which} edges"]) for which in ("first", "second"))
    counts = np.array(next(iter(answer.numbers.values()))).reshape(len(first) + 1, len(second) + 1)
    noise = (answer.scale or 0.0) * (2**0.5 if answer.noise == "discrete Laplace" else 1.0)
    labels = [_bin(second, j) for j in range(len(second) + 1)]
    rows: list[list[Cell]] = [[_bin(first, i), *(int(v) for v in line)] for i, line in enumerate(counts)]
    return Figure(
        title="How do the rows scatter about the release's model?",
        svg=grid_picture(counts, noise, "fitted value", "residual"),
        caption=(
            f"Noisy numbers of rows by fitted value and residual, as areas; hollow circles could be noise alone (below "
            f"{2 * noise:.3g} rows). {answer.question.budget}."
        ),
        alternative=f"Grid of {counts.shape[0]} fitted values by {counts.shape[1]} residuals; the numbers stand below.",
        numbers=Table.of("Rows by fitted value and residual", ("fitted", *labels), rows),
    )


def _curve_figure(answer: AnswerCard) -> Figure:
    x, y = (np.array(answer.details[f"{which} positive rate"]) for which in ("false", "true"))
    area = "unknown" if answer.estimate is None else f"{answer.estimate:.3f}"
    return Figure(
        title="How well does the release's model tell the outcomes apart?",
        svg=curve_picture(x, y),
        caption=f"True against false positives by the model's score, made to bend one way; area {area}. {answer.question.budget}.",
        alternative=f"ROC curve above the diagonal of a model that knows nothing; the area under it is {area}.",
    )


def _bin(edges: list[float], i: int) -> str:
    if i == 0:
        return f"up to {edges[0]:.3g}"
    return f"above {edges[-1]:.3g}" if i == len(edges) else f"{edges[i - 1]:.3g} to {edges[i]:.3g}"


def _cost(answer: AnswerCard) -> list[tuple[str, str]]:
    found = [("Price", answer.guarantee), ("Charged", f"{answer.created}, as {answer.request}")]
    if answer.sensitivity is not None:
        found.append(("Sensitivity", f"one unit moves the numbers by {answer.sensitivity:g} at most"))
    found += [] if answer.ledger_head is None else [("Ledger head", answer.ledger_head)]
    return [*found, ("Signed by", "nobody" if answer.signer is None else f"key {answer.signer}")]
