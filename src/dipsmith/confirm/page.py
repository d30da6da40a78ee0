"""The page of an answer: the question in words, the verdict in one sentence, a picture, what it cost.

Pictures are drawn from the answer's numbers alone: small enough for a telephone, in the page's own colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from html import escape

import numpy as np

from dipsmith.arrays import Floats, Ints
from dipsmith.confirm.answer import AnswerCard
from dipsmith.confirm.claim import AgreesWithRelease, Between, OneSided, Residuals, Roc, in_words
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
    asked = [("Claim", in_words(question.parsed_claim)), ("Analysis", " ".join(question.formula.split()))]
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
    if isinstance(question := answer.question.parsed_claim, Residuals | Roc):
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
    claim = answer.question.parsed_claim
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


WIDTH, HEIGHT = 420, 236
LEFT, RIGHT, TOP, BOTTOM = 16, 404, 30, 196
NAMED, ROOM = 0.6, 0.86
"""A curve's name stands beside it, at this share of its height, on the side that is free up to there."""


def density_picture(
    grid: Floats, prior: Floats, densities: Mapping[str, Floats], *, threshold: float, ends: Sequence[str], axis: str
) -> str:
    """Densities on 0 to 1: what was known before (grey), what is known now (in colour), and the threshold (thin line)."""
    low, high = 0.0, 1.0
    most = max(float(prior.max()), 1e-12, *(float(d.max()) for d in densities.values()))

    def across(x: float) -> float:
        return LEFT + (x - low) / (high - low) * (RIGHT - LEFT)

    def up(y: float) -> float:
        return BOTTOM - y / most * (BOTTOM - TOP)

    def path(values: Floats) -> str:
        return "M" + "L".join(f"{across(float(x)):.1f},{up(float(y)):.1f}" for x, y in zip(grid, values, strict=True))

    line = across(threshold)
    parts = [
        f'<path d="M{line:.1f},{TOP - 12}V{BOTTOM}" stroke="var(--soft)" stroke-width=".8"/>',
        f'<path d="{path(prior)}" fill="none" stroke="var(--soft)" stroke-width="1.2"/>',
        _text(line - 6, TOP - 16, ends[0], "end"),
        _text(line + 6, TOP - 16, ends[1], "start"),
    ]
    peaks: list[int] = []
    for (name, density), colour in zip(densities.items(), ("accent", "second"), strict=False):
        peak, tall = int(np.argmax(density)), grid[density > NAMED * density.max()]
        right = tall[-1] < ROOM and (peak > len(grid) // 2 or tall[0] < 1 - ROOM)
        place, side, shift = (tall[-1], "start", 7) if right or tall[0] < 1 - ROOM else (tall[0], "end", -7)
        # Two peaks at one place: the second name stands a line lower.
        height = up(NAMED * float(density[peak])) + 15 * sum(abs(p - peak) < 30 for p in peaks)
        peaks.append(peak)
        parts += [
            f'<path d="{path(density)}L{RIGHT},{BOTTOM}L{LEFT},{BOTTOM}Z" fill="var(--{colour})" fill-opacity=".14"/>',
            f'<path d="{path(density)}" fill="none" stroke="var(--{colour})" stroke-width="1.8"/>',
            _text(across(float(place)) + shift, height, name, side, colour),
        ]
    # "before" stands where no curve is, at an end or right of the middle.
    step = len(grid) // 8
    free = {"start": 0, "end": 7 * step, "middle": 5 * step}
    above = {side: max(float(d[at : at + step].max()) for d in densities.values()) for side, at in free.items()}
    side = min(above, key=lambda name: above[name])
    x = {"start": LEFT + 2, "end": RIGHT - 2, "middle": across(float(grid[free["middle"] + step // 2]))}[side]
    before = float(prior[free[side] : free[side] + step].max())
    parts += [
        _text(x, up(before) - 4, "before", side),
        f'<path d="M{LEFT},{BOTTOM}H{RIGHT}" stroke="var(--soft)" stroke-width=".8"/>',
        _text((LEFT + RIGHT) / 2, BOTTOM + 30, axis, "middle", "ink"),
    ]
    parts += [_text(across(x), BOTTOM + 15, f"{x:g}", "middle") for x in (0.0, 0.25, 0.5, 0.75, 1.0)]
    return _svg(parts)


def estimate_picture(value: float, error: float, ends: Sequence[float], axis: str) -> str:
    """The bell curve of an estimate, the flat line of what was known before, and the ends of what is claimed."""
    low = min([value - 4 * error, *(e - error for e in ends)])
    high = max([value + 4 * error, *(e + error for e in ends)])
    grid = np.linspace(low, high, 200)
    bell = np.exp(-(((grid - value) / error) ** 2) / 2)

    def across(x: float) -> float:
        return LEFT + (x - low) / (high - low) * (RIGHT - LEFT)

    points = "L".join(
        f"{across(float(x)):.1f},{BOTTOM - float(y) * (BOTTOM - TOP):.1f}" for x, y in zip(grid, bell, strict=True)
    )
    flat = BOTTOM - 14
    parts = [
        f'<path d="M{points}L{RIGHT},{BOTTOM}L{LEFT},{BOTTOM}Z" fill="var(--accent)" fill-opacity=".14"/>',
        f'<path d="M{points}" fill="none" stroke="var(--accent)" stroke-width="1.8"/>',
        f'<path d="M{LEFT},{flat}H{RIGHT}" stroke="var(--soft)" stroke-width="1.2"/>',
        f'<path d="M{LEFT},{BOTTOM}H{RIGHT}" stroke="var(--soft)" stroke-width=".8"/>',
        _text(LEFT + 2, flat - 4, "before", "start"),
        _text(across(value) + 4, TOP - 4, "after", "start", "accent"),
        _text((LEFT + RIGHT) / 2, BOTTOM + 30, axis, "middle", "ink"),
    ]
    for end in ends:
        parts.append(f'<path d="M{across(end):.1f},{TOP - 12}V{BOTTOM}" stroke="var(--soft)" stroke-width=".8"/>')
        parts.append(_text(across(end), TOP - 16, f"{end:g}", "middle"))
    for x in np.linspace(low, high, 5):
        parts.append(_text(min(max(across(float(x)), LEFT + 10), RIGHT - 12), BOTTOM + 15, f"{x:.3g}", "middle"))
    return _svg(parts)


def grid_picture(counts: Ints, noise: float, across: str, upwards: str) -> str:
    """Counts of a grid as areas of circles, hollow where noise alone could be as large (two standard deviations)."""
    columns, rows = counts.shape
    step = (RIGHT - LEFT) / columns
    height = max(12.0, min(step, 24.0))
    bottom = TOP + height * rows
    most = max(1.0, float(counts.max()))
    parts = []
    for i, j in np.ndindex(columns, rows):
        value = float(counts[i, j])
        if value <= 0:
            continue
        radius = max(0.8, 0.48 * height * float(np.sqrt(value / most)))
        sure = value > 2 * noise
        look = 'fill="var(--accent)"' if sure else 'fill="none" stroke="var(--soft)" stroke-width=".6"'
        parts.append(
            f'<circle cx="{LEFT + (i + 0.5) * step:.1f}" cy="{bottom - (j + 0.5) * height:.1f}" r="{radius:.1f}" {look}/>'
        )
    parts.append(f'<path d="M{LEFT},{bottom:.1f}H{RIGHT}" stroke="var(--soft)" stroke-width=".8"/>')
    parts.append(_text((LEFT + RIGHT) / 2, bottom + 16, f"{across} →", "middle", "ink"))
    parts.append(_text(LEFT, TOP - 10, f"↑ {upwards}", "start", "ink"))
    return _svg(parts, int(bottom + 26))


def curve_picture(x: Floats, y: Floats) -> str:
    """An ROC curve with the diagonal of a model that knows nothing."""
    left, right, bottom = 90, 330, TOP + 240
    points = [(left + float(a) * (right - left), bottom - float(b) * (bottom - TOP)) for a, b in zip(x, y, strict=True)]
    parts = [
        f'<path d="M{left},{bottom}L{right},{TOP}" stroke="var(--soft)" stroke-width=".8"/>',
        f'<path d="M{"L".join(f"{a:.1f},{b:.1f}" for a, b in points)}" fill="none" stroke="var(--accent)" stroke-width="1.8"/>',
        f'<path d="M{left},{TOP}V{bottom}H{right}" fill="none" stroke="var(--soft)" stroke-width=".8"/>',
        _text((left + right) / 2, bottom + 30, "false positives", "middle", "ink"),
        _text(left, TOP - 10, "true positives", "start", "ink"),
        _text((left + right) / 2 + 8, (TOP + bottom) / 2 + 12, "knows nothing", "start"),
    ]
    parts += [_text(left + t * (right - left), bottom + 15, f"{t:g}", "middle") for t in (0.0, 0.5, 1.0)]
    parts += [_text(left - 6, bottom - t * (bottom - TOP) + 4, f"{t:g}", "end") for t in (0.5, 1.0)]
    return _svg(parts, bottom + 40)


def _text(x: float, y: float, text: str, anchor: str, colour: str = "soft") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="var(--{colour})">{escape(text)}</text>'


def _svg(parts: Sequence[str], height: int = HEIGHT) -> str:
    style = "max-width:36rem;font-size:11px;font-family:inherit"
    return f'<svg viewBox="0 0 {WIDTH} {height}" style="{style}">{"".join(parts)}</svg>'
