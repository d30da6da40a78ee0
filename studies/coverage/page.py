"""The results page."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from studies.coverage.independence import KINDS as TESTS
from studies.coverage.lines import Line
from studies.coverage.regressions import CORRECTED
from studies.coverage.regressions import KINDS as INTERVALS
from studies.coverage.rules import AWARE, REFUSED, SEEN, SETS, SPLIT
from studies.coverage.several_sets import KINDS as SEVERAL
from studies.coverage.whole_path import CONTROL, ONE, RUNS

from assurance.markdown import wrap

OPENING = """# How often intervals cover

A 95 % interval should hold the truth 95 times in 100. Here it is counted: rows are drawn from a known population, sanitised, released and
analysed as a researcher would analyse them, over and over. `python -m studies.coverage` makes this page from
`studies/coverage/results.csv`; the results took {minutes:.0f} minutes of processor time.

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

REGRESSIONS = """## Regressions

A score y that depends on a group a and on sex: y ~ a + s, by the whole path. Coverage ± Monte-Carlo error (and mean width) of the 95 % intervals of
the coefficients of group and sex (under `label`, where only the sex is private, of the sex alone), averaged over them. *Ordinary* intervals leave the
noise out. *Noise-aware* ones add its variance, found by running the mechanism again on the synthetic rows. *Corrected* ones also
divide by the attenuation (or subtract another bias) that those runs show: what `dipsmith.fit` does unless told otherwise (here with 20 to 25 runs; its default is 50). *5 separate sets* are T = ū + B/m on sets with ε/5 each, at
the same total ε. The last column is how often the corrected interval holds the estimate that the authentic rows give.

{table}

{verdict}

What is left: the correction scatters with the estimate somewhat more than attenuation alone would let it, so that corrected intervals of a small
table with much noise tend to cover nearer .94 than .95; where the method shrinks little, `correct=False` does as well. For the forest,
which shrinks, the correction decides: without it half of the intervals miss.

`T = ū + B/m` does not know a bias that all sets share, and with a fifth of ε each there is more of it: negative counts that are projected, effects
that are shrunk. The MST line is a case that no rule repairs: a tree over three columns drops one of three pairs, here one that the regression
needs. Run again on its own output it finds nothing to lose.

These lines are of the rules by themselves, as they were before `dipsmith.fit` asked what a release carries. It now refuses
the regressions of the forest and of MST, which no noisy table holds, takes direct estimates from the table of `Flat`, and
corrects separate sets as it does one set.
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


def page(lines: Sequence[Line]) -> str:
    """The whole page, from whatever was measured so far."""
    seconds = {line.scenario: line.seconds for line in lines}
    parts = [OPENING.format(minutes=max(1.0, sum(seconds.values()) / 60))]
    if mine := _part(lines, "rules"):
        table = _covered(mine, "n = {rows:,}, ε = {epsilon:g}")
        parts.append(RULES.format(sets=SETS, table=table, verdict=_verdict(lines)))
    if mine := _part(lines, "whole path"):
        parts.append(PATH.format(runs=RUNS, table=_covered(mine, "{case}"), verdict=_path_verdict(lines)))
    for name, text, kinds, judged, nominal in (
        ("regressions", REGRESSIONS, INTERVALS, CORRECTED, 0.95),
        ("independence", INDEPENDENCE, TESTS, TESTS[1], 0.05),
        ("several sets", SETS_PAGE, SEVERAL, SEVERAL[0], 0.05),
    ):
        if mine := _part(lines, name):
            table = _side_by_side(mine, kinds, widths=name == "regressions")
            level = [line for line in mine if line.kind == judged and "associated" not in line.case]
            parts.append(text.format(table=table, verdict=_held(level, nominal)))
    return wrap("\n".join(parts))


def _part(lines: Sequence[Line], part: str) -> list[Line]:
    return [line for line in lines if line.part == part]


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0") if value < 1 else "1"


def monte_carlo(share: float, repeats: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share.

    >>> tuple(round(end, 3) for end in monte_carlo(0.95, 1000))
    (0.935, 0.962)
    """
    z = 1.959964
    centre = (share + z**2 / (2 * repeats)) / (1 + z**2 / repeats)
    half = z / (1 + z**2 / repeats) * sqrt(share * (1 - share) / repeats + (z / (2 * repeats)) ** 2)
    return max(0.0, centre - half), min(1.0, centre + half)


def _half(line: Line) -> float:
    low, high = monte_carlo(line.share, line.repeats)
    return (high - low) / 2


def _held(lines: Sequence[Line], nominal: float, name: str = "") -> str:
    """In how many lines the Monte-Carlo interval holds what it should, and which are the others."""
    outside = []
    for line in lines:
        low, high = monte_carlo(line.share, line.repeats)
        if not low <= nominal <= high:
            which = f"{line.case}, n = {line.rows:,}, ε = {line.epsilon:g}"
            outside.append(f"{which}: {_share(line.share)} ({_share(low)} to {_share(high)})")
    kept = len(lines) - len(outside)
    if not lines:
        return ""
    said = (
        f"*{name or lines[0].kind}*: the Monte-Carlo interval holds {_share(nominal)} in {kept} of {len(lines)} lines"
    )
    return said + (f"; not in {'; '.join(outside)}." if outside else ".")


def _covered(lines: Sequence[Line], scenario: str) -> str:
    """One line per interval."""
    shown = [
        "| | interval | coverage | Monte-Carlo interval | mean width | repeats |",
        "|---|---|---|---|---|---|",
    ]
    for line in lines:
        low, high = monte_carlo(line.share, line.repeats)
        name = scenario.format(rows=line.rows, epsilon=line.epsilon, case=line.case)
        bold = "**" if line.kind == REFUSED else ""
        shown.append(
            f"| {name} | {bold}{line.kind}{bold} | {bold}{_share(line.share)}{bold} | {_share(low)} to {_share(high)} "
            f"| {_share(line.width)} | {line.repeats:,} |"
        )
    return "\n".join(shown)


def _side_by_side(lines: Sequence[Line], kinds: Sequence[str], *, widths: bool) -> str:
    """One line per scenario, one column per kind."""
    shown = [f"| | rows | ε | {' | '.join(kinds)} | repeats |", "|---" * (4 + len(kinds)) + "|"]
    for scenario in dict.fromkeys(line.scenario for line in lines):
        mine = {line.kind: line for line in lines if line.scenario == scenario}
        cells = [_cell(mine[k], widths) if k in mine else "–" for k in kinds]
        _, case, rows, epsilon = scenario
        repeats = next(iter(mine.values())).repeats
        shown.append(f"| {case} | {rows:,} | {epsilon:g} | {' | '.join(cells)} | {repeats:,} |")
    return "\n".join(shown)


def _cell(line: Line, widths: bool) -> str:
    return f"{_share(line.share)} ± {_share(_half(line))}" + (f" ({line.width:.2f})" if widths else "")


def _verdict(lines: Sequence[Line]) -> str:
    at = {line.kind: line for line in _part(lines, "rules") if (line.rows, line.epsilon) == (1000, 0.1)}
    if not at:
        return ""
    low = {line.kind: line for line in _part(lines, "rules") if (line.rows, line.epsilon) == (1000, 0.03)}
    tails = (
        f" At ε = 0.03 the noise is nearly everything, and Laplace noise has heavier tails than a normal variable: even the known variance "
        f"with a normal quantile covers {_share(low[AWARE].share)}. `noise_aware` estimates the kurtosis from its runs, takes fewer degrees of "
        f"freedom, and covers {_share(low[SEEN].share)}."
        if low
        else ""
    )
    return (
        f"At n = 1000 and ε = 0.1 the noise-aware interval of one sanitised table covers as often as that of {SETS} separate sets "
        f"({_share(at[AWARE].share)} and {_share(at[SPLIT].share)}) at {at[AWARE].width / at[SPLIT].width:.0%} of the width.{tails}"
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
        + f" All lines are of the same tables, in which the authentic rows' own interval holds {_share(themselves.share)}."
    )
