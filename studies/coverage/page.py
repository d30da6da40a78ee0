"""The results page."""

from __future__ import annotations

from collections.abc import Sequence

from studies.coverage import adult, formulas, learned, lines, methods_page, personnel, tally
from studies.coverage.cell import share
from studies.coverage.independence import KINDS as TESTS
from studies.coverage.lines import Line
from studies.coverage.rules import AWARE, REFUSED, SEEN, SETS, SPLIT
from studies.coverage.several_sets import KINDS as SEVERAL
from studies.coverage.tally import wilson
from studies.coverage.whole_path import CONTROL, ONE, RUNS

from assurance.markdown import wrap

OPENING = """# How often intervals cover

A 95 % interval should hold the truth 95 times in 100. Here it is counted: rows are drawn from a known population, sanitised, released and
analysed as a researcher would analyse them, over and over. `python -m studies.coverage` makes this page from the CSV files in
`studies/coverage/`, and adds to them what they lack.

`ds.fit` answers with an interval or refuses with a sentence. So two things are counted: how often it answers, and how often its interval
then holds the truth. A question that is refused is no failure here; an interval that is given and misses is.

**What is covered** is the population's value: the value that the authentic rows, a sample of n, would give an estimate of. An interval
therefore pays for sampling people, for noise, and for drawing synthetic rows. The estimate that the authentic rows themselves give is nearer
to the released one, because sampling people lies between neither; the same intervals hold it more often than they say.

**How sure** is a share: it is counted in a number of independent runs, each with its own people, its own noise and its own draws. Every share stands with
its 95 % Monte-Carlo interval (Wilson 1927), or with ± half of it. Seeds are consecutive and were not chosen. *Authentic rows* are a control: the ordinary
interval of the same people before anything was sanitised, which is right by construction; where it covers .94, the people of these seeds are
a little unusual, and so is every other share of that line.
"""

RULES = """## The rules by themselves

A share of .3 among n rows; its count gets Laplace noise of scale 1/ε, and m = {sets} sets of n rows are drawn. *Separately sanitised* sets
get ε/{sets} each. The last line is the rule that `dipsmith.noise_aware` uses on one set, drawn systematically as releases are: nobody tells it the
noise, it finds it by running the mechanism again.

{table}

{verdict}

The second line is why `dipsmith.combine` and `dipsmith.fit` refuse T = ū + B/m for sets that were drawn from one model: they agree with each
other, because they share one draw of noise, and not with the truth.
"""

PATH = """## The whole path

The same share at n = 1000 and ε = 0.1, but with everything that a release goes through: `synthesize` with `Flat` (a private row is *replaced*,
or *added or removed* with n given by the steward), the card, `combine` or `noise_aware` with {runs} runs of the mechanism (the default).

{table}

Under replacement every count is measured with twice the noise. {verdict}
"""

INDEPENDENCE = """## Tests of independence, one set

The group and the sex of 1000 rows, released by `Flat`; share of tests that reject at 5 %. *Independent*: should be .05. *Associated*: the larger the
better, among tests that keep to .05. The corrected test is `dipsmith.inference.tests.independence`. The lines
share their people, so that their shares are not independent of each other.

{table}

{verdict}
"""

SETS_PAGE = """## Tests of independence, several sets

Five tables that were sanitised separately with ε/5 each, Laplace noise, projected and drawn; share of tests that reject at 5 %. *Corrected* is
`dipsmith.inference.tests.averaged`; *D2* combines the five statistics (Li, Meng, Raghunathan and Rubin 1991).

{table}

{verdict}
"""


def page() -> str:
    """The whole page, from whatever was measured so far."""
    parts = [OPENING]
    if tallies := tally.read():
        parts.append(methods_page.tell(tallies))
        parts.append(methods_page.tell_fresh(tallies, tally.read(tally.FRESH)))
    if answers := formulas.read():
        parts.append(formulas.tell(answers))
    if gaps := personnel.read():
        parts.append(personnel.tell(gaps))
    if large := personnel.read(personnel.AT_LARGE):
        parts.append(personnel.tell_large(large))
    if coefficients := adult.read():
        parts.append(adult.tell(coefficients))
    if runs := learned.read():
        parts.append(learned.tell(runs))
    return wrap("\n".join([*parts, *_rules(lines.read())]))


def _rules(lines: Sequence[Line]) -> list[str]:
    """The rules by themselves, and tests."""
    parts = []
    if mine := _part(lines, "rules"):
        table = _covered(mine, "n = {rows:,}, ε = {epsilon:g}")
        parts.append(RULES.format(sets=SETS, table=table, verdict=_verdict(lines)))
    if mine := _part(lines, "whole path"):
        parts.append(PATH.format(runs=RUNS, table=_covered(mine, "{case}"), verdict=_path_verdict(lines)))
    for name, text, kinds, judged, nominal in (
        ("independence", INDEPENDENCE, TESTS, TESTS[1], 0.05),
        ("several sets", SETS_PAGE, SEVERAL, SEVERAL[0], 0.05),
    ):
        if mine := _part(lines, name):
            table = _side_by_side(mine, kinds)
            level = [line for line in mine if line.kind == judged and "associated" not in line.case]
            parts.append(text.format(table=table, verdict=_held(level, nominal)))
    return parts


def _part(lines: Sequence[Line], part: str) -> list[Line]:
    return [line for line in lines if line.part == part]


def _half(line: Line) -> float:
    low, high = wilson(line.share * line.repeats, line.repeats)
    return (high - low) / 2


def _held(lines: Sequence[Line], nominal: float, name: str = "") -> str:
    """In how many lines the Monte-Carlo interval holds what it should, and which are the others."""
    outside = []
    for line in lines:
        low, high = wilson(line.share * line.repeats, line.repeats)
        if not low <= nominal <= high:
            which = f"{line.case}, n = {line.rows:,}, ε = {line.epsilon:g}"
            outside.append(f"{which}: {share(line.share)} ({share(low)} to {share(high)})")
    kept = len(lines) - len(outside)
    if not lines:
        return ""
    said = f"*{name or lines[0].kind}*: the Monte-Carlo interval holds {share(nominal)} in {kept} of {len(lines)} lines"
    return said + (f"; not in {'; '.join(outside)}." if outside else ".")


def _covered(lines: Sequence[Line], scenario: str) -> str:
    """One line per interval."""
    shown = [
        "| | interval | coverage | Monte-Carlo interval | mean width | repeats |",
        "|---|---|---|---|---|---|",
    ]
    for line in lines:
        low, high = wilson(line.share * line.repeats, line.repeats)
        name = scenario.format(rows=line.rows, epsilon=line.epsilon, case=line.case)
        bold = "**" if line.kind == REFUSED else ""
        shown.append(
            f"| {name} | {bold}{line.kind}{bold} | {bold}{share(line.share)}{bold} | {share(low)} to {share(high)} "
            f"| {share(line.width)} | {line.repeats:,} |"
        )
    return "\n".join(shown)


def _side_by_side(lines: Sequence[Line], kinds: Sequence[str]) -> str:
    """One line per scenario, one column per kind."""
    shown = [f"| | rows | ε | {' | '.join(kinds)} | repeats |", "|---" * (4 + len(kinds)) + "|"]
    for scenario in dict.fromkeys(line.scenario for line in lines):
        mine = {line.kind: line for line in lines if line.scenario == scenario}
        cells = [_cell(mine[k]) if k in mine else "–" for k in kinds]
        _, case, rows, epsilon = scenario
        repeats = next(iter(mine.values())).repeats
        shown.append(f"| {case} | {rows:,} | {epsilon:g} | {' | '.join(cells)} | {repeats:,} |")
    return "\n".join(shown)


def _cell(line: Line) -> str:
    return f"{share(line.share)} ± {share(_half(line))}"


def _verdict(lines: Sequence[Line]) -> str:
    at = {line.kind: line for line in _part(lines, "rules") if (line.rows, line.epsilon) == (1000, 0.1)}
    if not at:
        return ""
    low = {line.kind: line for line in _part(lines, "rules") if (line.rows, line.epsilon) == (1000, 0.03)}
    tails = (
        f" At ε = 0.03 the noise is nearly everything, and Laplace noise has heavier tails than a normal variable: even the known variance "
        f"with a normal quantile covers {share(low[AWARE].share)}. `noise_aware` estimates the kurtosis from its runs, takes fewer degrees of "
        f"freedom, and covers {share(low[SEEN].share)}."
        if low
        else ""
    )
    return (
        f"At n = 1000 and ε = 0.1 the noise-aware interval of one sanitised table covers as often as that of {SETS} separate sets "
        f"({share(at[AWARE].share)} and {share(at[SPLIT].share)}) at {at[AWARE].width / at[SPLIT].width:.0%} of the width.{tails}"
    )


def _path_verdict(lines: Sequence[Line]) -> str:
    found = []
    for case in dict.fromkeys(line.case for line in _part(lines, "whole path")):
        at = {line.kind: line for line in _part(lines, "whole path") if line.case == case}
        found.append(f"{at[ONE].width / at[SPLIT].width:.0%} of the width ({case.removeprefix('flat, ')})")
    if not found:
        return ""
    aware = [line for line in _part(lines, "whole path") if line.kind in (ONE, AWARE)]
    themselves = next(line for line in _part(lines, "whole path") if line.kind == CONTROL)
    return (
        f"One set with noise-aware intervals takes {' and '.join(found)} of {SETS} separate sets. "
        + _held(aware, 0.95, "With Var_noise")
        + f" All lines are of the same tables, in which the authentic rows' own interval holds {share(themselves.share)}."
    )
