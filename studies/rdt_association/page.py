"""The page and its figure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from studies.rdt_association.runs import AUTHENTIC, EPSILONS, N_B, ROWS, VARIANTS, Run

from assurance.markdown import wrap
from dipsmith.report.canvas import COLOURS, DASH, INK, MARKS, PAPER, RULE, standalone, surface

TEXT = """# Two labels: what training on synthetic labels loses

The reports make sex first and then race, and train the second ensemble on **synthetic** sex (the first report, section 2;
the second, section 2, step 2). Given the leaf that it was drawn from, synthetic sex is independent of race. So there is
nothing between the two for the second ensemble to learn, whatever the ε, and the association of sex and race within
agency, occupation and pay is lost. `python -m studies.rdt_association` makes this page in two minutes of processor time.

**Set-up.** {rows:,} simulated people with three public columns (240 cells), sex that depends on them, and race that depends
on them and on sex, with log-odds of 2 whatever the public columns. One tree for each label, n_B = {n_b}, leaves not
shrunk; ε in all, for both labels together. The measure is the common log-odds ratio of sex and race within the cells of the
public columns (Mantel and Haenszel). {repeats} repeats, other people in each; mean ± standard deviation.

## What it shows

The association of sex and race given the public columns is **{authentic}** in the authentic rows. Trained as reported it is
**{reported}** at ε = 8: gone. Trained on authentic sex and *applied* to synthetic sex it is **{applied}**, and with joint
leaves **{joint}**. That is why `Forest` does one of the latter and has no option for the first; the reports' variant is in
`studies/rdt_association/runs.py`, for comparison only. (An earlier prototype, with its own people: 2.01 in the
authentic rows, 0.04 as reported, 2.00 applied, 2.03 joint.)

![Log-odds ratio of sex and race against ε: as reported at 0, applied and joint as authentic.](rdt-association/figure-1.svg)

| variant | {heads} |
|---|{rules}
{lines}

The second report's first step besides asks authentic race to make sex (its section 1, and step 1 of section 2): a private
label that routes a released row. Here no private label ever does. All runs: `studies/rdt_association/results.csv`.
"""


def page(runs: Sequence[Run]) -> str:
    """The results as Markdown."""
    authentic = [r.log_odds for r in runs if r.variant == AUTHENTIC]
    lines = [f"| *{AUTHENTIC}* | " + " | ".join([f"*{_spread(authentic)}*"] * len(EPSILONS)) + " |"]
    lines += [f"| {v} | " + " | ".join(_spread(_at(runs, v, e)) for e in EPSILONS) + " |" for v in VARIANTS]
    at_most = [f"{np.mean(_at(runs, v, EPSILONS[-1])):.2f}".replace("-", "−") for v in VARIANTS]
    words = dict(zip(("reported", "applied", "joint"), at_most, strict=True))
    return wrap(
        TEXT.format(
            rows=ROWS,
            n_b=N_B,
            repeats=len(authentic),
            authentic=f"{np.mean(authentic):.2f}",
            heads=" | ".join(f"ε = {e:g}" for e in EPSILONS),
            rules="---:|" * len(EPSILONS),
            lines="\n".join(lines),
            **words,
        )
    )


def draw(runs: Sequence[Run]) -> str:
    """Log-odds against ε, with two standard deviations over the repeats."""
    with surface(7.2, 3.6) as (figure, done):
        axis = figure.subplots()
        authentic = float(np.mean([r.log_odds for r in runs if r.variant == AUTHENTIC]))
        axis.axhline(0, color=RULE, linewidth=0.8)
        axis.axhline(authentic, color=INK, linewidth=1.1)
        axis.annotate(AUTHENTIC, (EPSILONS[0], authentic), xytext=(0, -11), textcoords="offset points", fontsize=8)
        for i, variant in enumerate(VARIANTS):
            found = np.array([_at(runs, variant, e) for e in EPSILONS])
            # A little to the left and right of ε, so that marks do not hide one another.
            at = np.array(EPSILONS) * 1.04 ** (i - 1)
            look = {"color": COLOURS[i], "markerfacecolor": PAPER, "markersize": 5, "linewidth": 1.1, "elinewidth": 0.8}
            axis.errorbar(
                at,
                found.mean(axis=1),
                2 * found.std(axis=1, ddof=1),
                fmt=MARKS[i],
                linestyle=DASH,
                label=variant,
                **look,
            )
        axis.set_xscale("log")
        axis.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
        axis.minorticks_off()
        axis.set_ylim(-0.25, 2.6)
        axis.set_xlabel("ε in all, for both labels (logarithmic)")
        axis.set_ylabel("log-odds ratio of sex and race")
        axis.set_title("Trained on synthetic sex, the association with race is lost at every ε")
        axis.legend(frameon=False, fontsize=8, loc="center right")
        return standalone(
            done(), "Log-odds ratio of sex and race given public columns, by how the second label is trained."
        )


def _at(runs: Sequence[Run], variant: str, epsilon: float) -> list[float]:
    return [r.log_odds for r in runs if (r.variant, r.epsilon) == (variant, epsilon)]


def _spread(values: Sequence[float]) -> str:
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}".replace("-", "−")
