"""The results page."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from studies.coverage.independence import KINDS as TESTS
from studies.coverage.lines import Line
from studies.coverage.regressions import KINDS as INTERVALS
from studies.coverage.rules import AWARE, REFUSED, SETS, SPLIT
from studies.coverage.several_sets import KINDS as SEVERAL
from studies.coverage.whole_path import ONE, RUNS

OPENING = """# How often intervals cover

A 95 % interval should hold the truth 95 times in 100. Here it is counted: rows are drawn from a known population, sanitised, released and
analysed as a researcher would analyse them, over and over. `python -m studies.coverage` makes this page from
`studies/coverage/results.csv`; the results took {minutes:.0f} minutes of processor time. Every share has a standard error of √(p(1 − p)/repeats).
"""

RULES = """## The rules by themselves

A share of .3 among n rows; its count gets Laplace noise of scale 1/ε, and m = {sets} sets of n rows are drawn. *Separately sanitised* sets
get ε/{sets} each.

{table}

{verdict}

The second line is why `dipsmith.combine` and `dipsmith.fit` refuse T = ū + B/m for sets that were drawn from one model: they agree with each
other, because they share one draw of noise, and not with the truth.
"""

PATH = """## The whole path

The same share at n = 1000 and ε = 0.1, but with everything that a release goes through: `synthesize` with `Flat` (a private row is *replaced*,
or *added or removed* with n given by the steward), the card, `combine` or `noise_aware` with {runs} runs of the mechanism (the default is 50; fewer
runs know the variance of the noise less well).

{table}

Under replacement every count is measured with twice the noise. {verdict}
"""

REGRESSIONS = """## Regressions

A score y that depends on a group a and on sex; coverage (and mean width) of the 95 % intervals of the coefficients, averaged over them. *Ordinary*
intervals leave the noise out. *Noise-aware* ones add its variance, found by running the mechanism again on the synthetic rows. *Corrected* ones
also take off the bias that those runs show: what `dipsmith.fit` does unless told otherwise.

{table}

The MST line is a case that no rule repairs: a tree over three columns drops one of three pairs, here one that the regression needs. Run
again on its own output it finds nothing to lose.
"""

INDEPENDENCE = """## Tests of independence, one set

The group and the sex of 1000 rows, released by `Flat`; share of tests that reject at 5 %. *Independent*: should be .05. *Associated*: the larger the
better, among tests that keep to .05.

{table}
"""

SETS_PAGE = """## Tests of independence, several sets

Five tables that were sanitised separately with ε/5 each, Laplace noise, projected and drawn; share of tests that reject at 5 %. *Corrected* is
`dipsmith.inference.tests.averaged`; *D2* combines the five statistics (Li, Meng, Raghunathan and Rubin 1991).

{table}
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
    for name, text, kinds in (
        ("regressions", REGRESSIONS, INTERVALS),
        ("independence", INDEPENDENCE, TESTS),
        ("several sets", SETS_PAGE, SEVERAL),
    ):
        if mine := _part(lines, name):
            parts.append(text.format(table=_side_by_side(mine, kinds, widths=name == "regressions")))
    return "\n".join(parts)


def _part(lines: Sequence[Line], part: str) -> list[Line]:
    return [line for line in lines if line.part == part]


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0") if value < 1 else "1"


def _covered(lines: Sequence[Line], scenario: str) -> str:
    """One line per interval."""
    shown = ["| | interval | coverage | s.e. | mean width | repeats |", "|---|---|---|---|---|---|"]
    for line in lines:
        error = sqrt(line.share * (1 - line.share) / line.repeats)
        name = scenario.format(rows=line.rows, epsilon=line.epsilon, case=line.case)
        bold = "**" if line.kind == REFUSED else ""
        shown.append(
            f"| {name} | {bold}{line.kind}{bold} | {bold}{_share(line.share)}{bold} | {_share(error)} "
            f"| {_share(line.width)} | {line.repeats:,} |"
        )
    return "\n".join(shown)


def _side_by_side(lines: Sequence[Line], kinds: Sequence[str], *, widths: bool) -> str:
    """One line per scenario, one column per kind."""
    shown = [f"| | rows | ε | {' | '.join(kinds)} | repeats |", "|---" * (4 + len(kinds)) + "|"]
    for scenario in dict.fromkeys(line.scenario for line in lines):
        mine = {line.kind: line for line in lines if line.scenario == scenario}
        cells = [
            _share(mine[k].share) + (f" ({mine[k].width:.3f})" if widths else "") for k in kinds if k in mine
        ]
        _, case, rows, epsilon = scenario
        repeats = next(iter(mine.values())).repeats
        shown.append(f"| {case} | {rows:,} | {epsilon:g} | {' | '.join(cells)} | {repeats:,} |")
    return "\n".join(shown)


def _verdict(lines: Sequence[Line]) -> str:
    at = {line.kind: line for line in _part(lines, "rules") if (line.rows, line.epsilon) == (1000, 0.1)}
    if not at:
        return ""
    return (
        f"At n = 1000 and ε = 0.1 the noise-aware interval of one sanitised table covers as often as that of {SETS} separate sets "
        f"({_share(at[AWARE].share)} and {_share(at[SPLIT].share)}) at {at[AWARE].width / at[SPLIT].width:.0%} of the width."
    )


def _path_verdict(lines: Sequence[Line]) -> str:
    found = []
    for case in dict.fromkeys(line.case for line in _part(lines, "whole path")):
        at = {line.kind: line for line in _part(lines, "whole path") if line.case == case}
        found.append(f"{at[ONE].width / at[SPLIT].width:.0%} of the width ({case.removeprefix('flat, ')})")
    if not found:
        return ""
    return f"One set with noise-aware intervals takes {' and '.join(found)} of {SETS} separate sets."
