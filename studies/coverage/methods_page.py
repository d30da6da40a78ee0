"""The tables of all methods: one for each question."""

from __future__ import annotations

from collections.abc import Sequence

from studies.coverage import figure
from studies.coverage.cell import Cell, share
from studies.coverage.methods import (
    AUTHENTIC,
    EPSILONS,
    FRESH_RUNS,
    LABELLERS,
    LEAST,
    METHODS,
    MORE_RUNS,
    NOMINAL,
    PLANS,
    REPLICATES,
    ROWS,
    RUNS,
    WHOLE,
)
from studies.coverage.tally import Tally

ASKED = {
    "mean": "The mean of a score, `y ~ 1`; under `label`, where only the sex is private, the difference of means `y ~ s`.",
    "share": 'The share of women, `I(s == "W") ~ 1` by least squares.',
    "OLS, main effects": "Least squares on a group and the sex, `y ~ a + s`.",
    "OLS, product": "Least squares with a product, `y ~ s * v`: a method has to know three columns together.",
    "logistic": "Odds of a vote, `v ~ a + s`; under `label` the odds of the private sex, `s ~ a + y`.",
}

TEXT = """## All methods, five questions

{rows:,} rows of a population with four columns are released by each of the nine methods at ε = .5, 1 and 3 and asked five
questions by `ds.fit`, as a researcher calls it (with {replicates} runs where the mechanism is run again). *Planned* releases were told all five
questions beforehand and share their budget among them; the others were told nothing. A cell says how often the 95 % interval held the
population's value, with its Monte-Carlo interval, and how wide it was in units of the authentic rows' own interval; all slopes of a regression are
counted together, and a Monte-Carlo interval counts runs, not slopes. *Refused*: `ds.fit` raised `NotCarried` in every run. Where it
refused in some runs, the cell says in how many it answered. There are {wanted} runs of a kind of release, and more, up to {more}, as long as a cell lies below the nominal share by more than chance leaves to one cell of 40 (runs end as soon as none does, and all are counted together: shares of such cells are not free of that choice); the last column says how many. All were run on 19 November 2026. `LogLinear` labels rows and makes none, so that it stands under `label` alone.

{verdict}

![{alternative}](../images/coverage.svg)

Every cell that was answered, lowest first; whiskers are Monte-Carlo intervals, the band is .93 to .97. Grey cells have fewer than {few} answers.
"""


def kinds() -> list[tuple[str, str, bool]]:
    """Method, relation and whether it was planned: the lines of a table."""
    whole = [m for m in METHODS if m != "loglinear"]
    found = [(m, r, p) for r in ("replace", "add-remove") for p in (False, True) for m in (PLANS if p else whole)]
    return [*found, *((m, "label", p) for p in (False, True) for m in LABELLERS)]


def cells(tallies: Sequence[Tally], asked: Sequence[str] = tuple(ASKED)) -> list[Cell]:
    """All cells of some questions that were run."""
    return [
        Cell.of(f"{_named(kind)}, ε = {e}, {question}", some)
        for question in asked
        for kind in kinds()
        for e in EPSILONS
        if (some := _of(tallies, kind, e, question))
    ]


def draw(tallies: Sequence[Tally]) -> str:
    """The figure of all cells."""
    return figure.draw([(question, cells(tallies, [question])) for question in ASKED])


def tell(tallies: Sequence[Tally]) -> str:
    """The section of the page."""
    text = TEXT.format(
        rows=ROWS,
        replicates=REPLICATES,
        wanted=RUNS,
        more=MORE_RUNS,
        verdict=verdict(cells(tallies)),
        alternative=figure.ALTERNATIVE,
        few=figure.FEW,
    )
    parts = [text]
    for question in WHOLE:
        heads = " | ".join(f"ε = {e}" for e in EPSILONS)
        shown = [f"| release | {heads} | runs |", "|---" * (2 + len(EPSILONS)) + "|"]
        for relation in ("replace", "label"):
            own = Cell.of(
                "", [t for t in tallies if (t.method, t.relation, t.estimand) == (AUTHENTIC, relation, question.name)]
            )
            if own.runs:
                low, high = own.interval
                name = AUTHENTIC if relation == "replace" else f"{AUTHENTIC}, the question under `label`"
                shown.append(f"| *{name}* | {share(own.held)} ({share(low)}–{share(high)}) | | | {own.runs:,} |")
        for kind in kinds():
            mine = [Cell.of("", _of(tallies, kind, e, question.name)) for e in EPSILONS]
            if runs := [str(c.runs) for c in mine if c.runs]:
                texts = " | ".join(map(str, mine))
                shown.append(f"| {_named(kind)} | {texts} | {' / '.join(dict.fromkeys(runs))} |")
        parts.append(f"### {question.name}\n\n{ASKED[question.name]}\n\n" + "\n".join(shown) + "\n")
    return "\n".join(parts)


FRESH = """### Cells that looked low, again

A kind of release that still has a cell below the nominal share after {more} runs, or one whose intervals, however few, held the truth
less than nine times in ten, is run {wanted:,} times more, from other seeds. That number was fixed before, and these runs are counted by themselves, with all questions that such a release answers.

{table}
"""


def tell_fresh(tallies: Sequence[Tally], fresh: Sequence[Tally]) -> str:
    """The section of low cells and their fresh runs; empty where there are none."""
    first = {c.name: c for c in cells(tallies)}
    shown = ["| release and question | first runs | fresh runs | runs |", "|---|---|---|---|"]
    shown += [f"| {c.name} | {first[c.name]} | {c} | {c.runs:,} |" for c in cells(fresh) if c.answered]
    if len(shown) == 2:
        return ""
    return FRESH.format(more=MORE_RUNS, wanted=FRESH_RUNS, table="\n".join(shown))


def verdict(found: Sequence[Cell]) -> str:
    """How many cells were answered, and which of them miss."""
    answered = [c for c in found if c.answered]
    if not answered:
        return ""
    missing = [c for c in answered if c.interval[1] < NOMINAL]
    worst = [c for c in answered if c.interval[1] < LEAST]
    total = sum(c.answered for c in answered)
    held = sum(c.held * c.answered for c in answered) / total
    text = (
        f"Of {len(found)} cells {len(found) - len(answered)} were refused in every run. In the {len(answered)} others the intervals hold {share(held)} "
        f"of the time ({total:,} answers); the Monte-Carlo interval of {len(answered) - len(missing)} holds .950 or lies above it (of 40 right cells about one lies below by chance)."
    )
    if missing:
        text += " Below lie " + "; ".join(f"{c.name}: {c}" for c in missing) + "."
    return text + (
        f" **Below .90: {'; '.join(c.name for c in worst)}.**"
        if worst
        else " None that was answered lies below .90 by more than Monte-Carlo error."
    )


def _named(kind: tuple[str, str, bool]) -> str:
    method, relation, planned = kind
    return f"{method}, {relation}{', planned' if planned else ''}"


def _of(tallies: Sequence[Tally], kind: tuple[str, str, bool], epsilon: str, question: str) -> list[Tally]:
    return [t for t in tallies if t.case == (*kind, epsilon) and t.estimand == question]
