"""What the application shows: the orderings that must hold, the paper's tables, and the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from studies.youth_voters.runs import AS_BY_DEFAULT, AS_IN_THE_PAPER, FLOOR, LOG_EPSILONS, REPETITIONS, Run

from assurance.markdown import wrap

NOISE = 0.02
"""How much a distance may differ by chance."""
HIERARCHIES = ("flat", "STEPS-2", "STEPS-3", "UH-2", "UH-3")
PAPER = {
    "flat": (0.981, 0.978, 0.968, 0.930, 0.833),
    "STEPS-2": (0.975, 0.971, 0.965, 0.944, 0.886),
    "STEPS-3": (0.956, 0.954, 0.945, 0.919, 0.843),
    "UH-2": (0.973, 0.971, 0.964, 0.944, 0.885),
    "UH-3": (0.957, 0.954, 0.945, 0.919, 0.843),
    "PrivBayes": (0.462, 0.422, 0.272, 0.187, 0.157),
}
"""The paper's distances on the original data; those of PrivBayes come from software whose noise was n times too small."""
PAPER_SCORES = {
    "flat": (22, 19, 21, 23, 18),
    "STEPS-2": (18, 18, 19, 22, 22),
    "STEPS-3": (18, 16, 16, 21, 21),
    "UH-2": (22, 28, 32, 34, 36),
    "UH-3": (26, 30, 34, 37, 40),
    "PrivBayes": (43, 43, 31, 22, 26),
}
"""Sums of ranks in the paper's Table 3."""

Pick = Callable[[Run], float]
TABLE: tuple[tuple[str, Pick, bool], ...] = (
    ("KS", lambda r: r.ks, False),
    ("χ² 1 %", lambda r: r.agreement.consistent[0], True),
    ("χ² 5 %", lambda r: r.agreement.consistent[1], True),
    ("χ² 10 %", lambda r: r.agreement.consistent[2], True),
    ("overlap, all", lambda r: r.agreement.overlap_all, True),
    ("prereg.", lambda r: r.agreement.overlap_primary[0], True),
    ("registered", lambda r: r.agreement.overlap_primary[1], True),
    ("prereg. × reg.", lambda r: r.agreement.overlap_primary[2], True),
)
"""The columns of Table 3, and whether larger is better."""
CORRECTED: tuple[tuple[str, Pick, int], ...] = (
    ("KS", lambda r: r.ks, 3),
    ("χ² 5 %, one set", lambda r: r.agreement.single, 3),
    ("κ", lambda r: r.agreement.kappa, 3),
    ("ranks of V", lambda r: r.agreement.ranks, 3),
    ("overlap, registered", lambda r: r.agreement.registered_all, 3),
    ("prereg.", lambda r: r.agreement.registered_state, 3),
    ("width of prereg.", lambda r: r.agreement.registered_width, 2),
    ("error of share voting", lambda r: r.voted, 4),
)
CLASSES = ("≤ .01", ".01–.05", ".05–.1", "> .1")


@dataclass(frozen=True)
class Check:
    """A claim, whether it holds, and the figure behind it."""

    claim: str
    holds: bool
    figure: str


@dataclass(frozen=True)
class Summary:
    """Runs by method and ε."""

    runs: Sequence[Run]

    def of(self, method: str, log_epsilon: int) -> list[Run]:
        """The repetitions."""
        return [r for r in self.runs if r.method == method and r.log_epsilon == log_epsilon]

    def mean(self, method: str, log_epsilon: int, pick: Pick) -> float:
        """Average over the repetitions."""
        return float(np.mean([pick(r) for r in self.of(method, log_epsilon)]))

    def sd(self, method: str, log_epsilon: int, pick: Pick) -> float:
        """Standard deviation between the repetitions."""
        values = [pick(r) for r in self.of(method, log_epsilon)]
        return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")

    def repetitions(self, method: str) -> int:
        """How many repetitions there are at every ε."""
        return min(len(self.of(method, e)) for e in LOG_EPSILONS)


def ranks(found: Summary, log_epsilon: int) -> dict[str, tuple[list[float], list[int]]]:
    """For every method of the paper the means of Table 3 and their ranks (1 is best, equal means share the better rank)."""
    means = {m: [round(found.mean(m, log_epsilon, p), 3) for _, p, _ in TABLE] for m in AS_IN_THE_PAPER}
    ranked = {}
    for method, values in means.items():
        better = [
            sum((other[i] > v) if up else (other[i] < v) for other in means.values())
            for i, (v, (_, _, up)) in enumerate(zip(values, TABLE, strict=True))
        ]
        ranked[method] = (values, [1 + b for b in better])
    return ranked


def checks(runs: Sequence[Run]) -> list[Check]:
    """The orderings, on mean distances with interactions."""
    found = Summary(runs)
    ks = {(m, e): found.mean(m, e, lambda r: r.ks) for m in AS_IN_THE_PAPER for e in LOG_EPSILONS}
    spread = max(found.sd(m, e, lambda r: r.ks) for m in HIERARCHIES for e in LOG_EPSILONS)
    rises = max(ks[m, b] - ks[m, a] for m in AS_IN_THE_PAPER for a, b in pairwise(LOG_EPSILONS))
    gap = min(ks[m, e] - ks["PrivBayes", e] for m in HIERARCHIES for e in LOG_EPSILONS if e >= -1)
    first = min(ks["STEPS-2", e] - ks["STEPS-3", e] for e in LOG_EPSILONS if e <= 0)
    second = min(ks["flat", e] - ks["STEPS-2", e] for e in LOG_EPSILONS if e <= 0)
    random = max(ks[f"STEPS-{k}", e] - ks[f"UH-{k}", e] for k in (2, 3) for e in LOG_EPSILONS)
    falls = {m: ks[m, 1] - ks[m, 2] for m in HIERARCHIES}
    fastest = max(falls[m] for m in HIERARCHIES if m != "flat")
    seconds = np.mean([sum(r.seconds for r in runs if r.method in HIERARCHIES and r.repetition == k) for k in range(2)])
    nothing, everything = constant_answers(runs)
    most = max(found.mean(m, e, TABLE[2][1]) for m in AS_IN_THE_PAPER for e in LOG_EPSILONS)
    auto = max(found.mean("STEPS, auto", e, lambda r: r.ks) - min(ks[m, e] for m in HIERARCHIES) for e in LOG_EPSILONS)
    networks = max(
        found.mean(m, e, lambda r: r.ks) - min(ks[h, e] for h in HIERARCHIES)
        for m in ("MST", "AIM")
        for e in LOG_EPSILONS
    )
    order = min(
        found.mean("MST", e, lambda r: r.agreement.ranks)
        - max(found.mean(m, e, lambda r: r.agreement.ranks) for m in HIERARCHIES)
        for e in LOG_EPSILONS
        if e >= 0
    )
    return [
        Check("the distance falls with ε (may rise by 0.02)", rises <= NOISE, f"largest rise {rises:+.3f}"),
        Check("PrivBayes below all hierarchies from log ε = −1", gap > 0, f"smallest gap {gap:.3f}"),
        Check("STEPS-3 < STEPS-2 for ε ≤ 1", first > 0, f"smallest gap {first:.3f}"),
        Check("STEPS-2 < flat for ε ≤ 1", second > 0, f"smallest gap {second:.3f}"),
        Check("STEPS-L at most UH-L, up to 0.02", random <= NOISE, f"largest excess {random:+.3f}"),
        Check(
            "flat falls fastest from log ε = 1 to 2",
            falls["flat"] > fastest,
            f"flat {falls['flat']:.3f}, next {fastest:.3f}",
        ),
        Check(
            "repetitions hardly differ: standard deviation of a distance below 0.02",
            spread < NOISE,
            f"largest {spread:.4f}",
        ),
        Check(
            "flat, STEPS and UH at five ε, five sets each, in under 3 minutes",
            seconds < 180,
            f"{seconds:.0f} s of one processor",
        ),
        Check(
            "no method of the paper agrees with the tests (χ², 5 %) as often as 'everything is significant'",
            most < everything,
            f"best method {most:.3f}, everything {everything:.3f}, nothing {nothing:.3f}",
        ),
        Check(
            "`Steps()` is closer than every hierarchy of the paper, at every ε",
            auto < 0,
            f"smallest gain {-auto:.3f}",
        ),
        Check(
            "MST and AIM are closer than every hierarchy of the paper, at every ε",
            networks < 0,
            f"smallest gain {-networks:.3f}",
        ),
        Check(
            "MST orders the associations better than every hierarchy of the paper from ε = 1 on",
            order > 0,
            f"smallest gain in rank correlation {order:.3f}",
        ),
    ]


def constant_answers(runs: Sequence[Run]) -> tuple[float, float]:
    """How often 'nothing is significant' and 'everything is' agree with the authentic tests at 5 %."""
    classes = np.array(runs[0].agreement.p_classes).reshape(4, 4).sum(axis=1)
    significant = classes[:2].sum() / classes.sum()
    return float(1 - significant), float(significant)


@dataclass(frozen=True)
class Survey:
    """A survey file that stands instead of simulated people."""

    name: str
    people: int


SIMULATED = """The survey file is not redistributed here; `dipsmith.examples.voters` simulates people with
its margins, impossible cells and sparsity; whoever has the file runs all of this on it by `--cps FILE`.
`python -m studies.youth_voters` makes this page and its figures in {minutes:.0f} minutes of processor time; every number is in
`studies/youth_voters/results.csv`, one line per repetition."""
SURVEYED = """Here its people are those of the file {name}: {people:,} of 18 to 22 with all fifteen answers. `python -m
studies.youth_voters --cps FILE` made this page and its figures in {minutes:.0f} minutes of processor time; every number is in
`results.csv` beside it."""

INTRODUCTION = """# Youth voters: what layers are good for

Bowen, Liu and Su (arXiv 1803.06763, section 4) apply STEPS to 44,821 young voters in 15 columns: 1,290,240 possible
cells, 98 % of them empty. {people}

Five sets at ε/5 each, neighbours add or remove a row, n public; {many} repetitions of what is in the paper{missing}, {few} of
the package's own settings. SPECKS is the Kolmogorov–Smirnov distance of propensity scores from a logistic regression
with all interactions of two columns, 502 coefficients (0: synthetic rows cannot be told from authentic ones). "Other
people" are five further samples of {population}: no method can be expected to come closer.
"""


def page(runs: Sequence[Run], survey: Survey | None = None) -> str:
    """The results as Markdown."""
    found = Summary(runs)
    minutes = sum(r.seconds + r.scoring for r in runs) / 60
    many, few = found.repetitions("STEPS-2"), found.repetitions("STEPS, auto")
    missing = "" if many >= REPETITIONS else f" (of {REPETITIONS} there; the command adds what is missing)"
    people = SIMULATED.format(minutes=minutes)
    population = "the same population"
    if survey is not None:
        people = SURVEYED.format(name=survey.name, people=survey.people, minutes=minutes)
        population = "the file's people, drawn with replacement"
    text = [
        INTRODUCTION.format(people=people, population=population, many=many, few=few, missing=missing),
        _conclusions(found),
        "## Checks\n",
        "| claim | found | |",
        "|---|---|---|",
    ]
    text += [f"| {c.claim} | {c.figure} | {'holds' if c.holds else '**fails**'} |" for c in checks(runs)]
    text += _distances(found) + _table_3(found) + _corrected(found) + _p_values(found) + _costs(found)
    made = wrap("\n".join(text) + "\n")
    return made if survey is None else made.replace("(../images/", "(")


def _distances(found: Summary) -> list[str]:
    text = [
        "\n## Distances (figure 5)\n",
        "![One panel per method: distance against log ε, ours with whiskers of two standard deviations, the paper's "
        "in grey. Hierarchies stay near 0.8 whatever ε; PrivBayes falls.](../images/youth-voters-specks.svg)",
        "\nMean ± standard deviation over the repetitions.\n",
        _head("method"),
    ]

    def line(method: str) -> str:
        cells = []
        for e in LOG_EPSILONS:
            sd = found.sd(method, e, lambda r: r.ks)
            cells.append(f"{found.mean(method, e, lambda r: r.ks):.3f}" + ("" if np.isnan(sd) else f" ± {sd:.4f}"))
        return f"| {method} | " + " | ".join(cells) + " |"

    text += [line(m) for m in (*AS_IN_THE_PAPER, *AS_BY_DEFAULT)]
    floor = found.mean(FLOOR, 0, lambda r: r.ks)
    text.append(f"| *{FLOOR}* | " + " | ".join([f"*{floor:.3f}*"] * len(LOG_EPSILONS)) + " |")
    text += ["\nThe paper, on the original data (levels differ, shapes agree):\n", _head("method")]
    text += [f"| {m} | " + " | ".join(f"{v:.3f}" for v in values) + " |" for m, values in PAPER.items()]
    text.append(
        "\nIts PrivBayes figures come from software that, at the time, added noise n times too small; they are no target."
    )
    return text


def _table_3(found: Summary) -> list[str]:
    text = [
        "\n## The paper's summary (table 3, figures 6 and 7)\n",
        "![One panel per method: share of 105 chi-squared tests with the authentic conclusion, at 1, 5 and 10 %, "
        "against log ε. All lie between the grey lines of the two constant answers.](../images/youth-voters-tests.svg)",
        "",
        "![One panel per method: overlap of intervals of the difference-in-differences model against log ε: high and "
        "flat for the three coefficients that have no finite estimate.](../images/youth-voters-overlap.svg)",
        "\nMeans ± standard deviations over the repetitions, ranks of the means in brackets (1 is best), their sum (the overall "
        "score; lower is better), and the paper's sum on the original data.\n",
    ]
    for e in LOG_EPSILONS:
        text += [
            f"\n**log ε = {e}**\n",
            "| method | " + " | ".join(name for name, _, _ in TABLE) + " | sum of ranks | paper |",
            "|---|" + "---:|" * (len(TABLE) + 2),
        ]
        for method, (values, ranked) in ranks(found, e).items():
            spreads = [found.sd(method, e, pick) for _, pick, _ in TABLE]
            cells = [
                f"{v:.3f} {'' if np.isnan(sd) else f'± {sd:.3f} '}({r})"
                for v, sd, r in zip(values, spreads, ranked, strict=True)
            ]
            paper = PAPER_SCORES[method][LOG_EPSILONS.index(e)]
            text.append(f"| {method} | " + " | ".join(cells) + f" | {sum(ranked)} | {paper} |")
        floor = [f"*{found.mean(FLOOR, 0, p):.3f}*" for _, p, _ in TABLE]
        text.append(f"| *{FLOOR}* | " + " | ".join(floor) + " | | |")
    return text


def _corrected(found: Summary) -> list[str]:
    text = [
        "\n## The same conclusions, measured so that they can differ\n",
        "Tests one set at a time instead of by D2, Cohen's κ, the rank correlation of Cramér's V with the authentic ones, "
        "and the regression among the registered, where a maximum exists: mean overlap of its 30 intervals, overlap and "
        "relative width of the preregistration effect's, and the error of the share that voted.\n",
    ]
    for e in LOG_EPSILONS:
        text += [
            f"\n**log ε = {e}**\n",
            "| method | " + " | ".join(name for name, _, _ in CORRECTED) + " |",
            "|---|" + "---:|" * len(CORRECTED),
        ]
        for method in (*AS_IN_THE_PAPER, *AS_BY_DEFAULT):
            cells = [f"{found.mean(method, e, p):.{digits}f}" for _, p, digits in CORRECTED]
            text.append(f"| {method} | " + " | ".join(cells) + " |")
        floor = [f"*{found.mean(FLOOR, 0, p):.{digits}f}*" for _, p, digits in CORRECTED]
        text.append(f"| *{FLOOR}* | " + " | ".join(floor) + " |")
    return text


def _p_values(found: Summary) -> list[str]:
    text = [
        "\n## p-values (tables 4 to 9)\n",
        "Authentic p-values by class (lines) against those from five sets combined by D2 (columns): pairs of 105, mean "
        "over the repetitions; *same* is the sum of the diagonal.\n",
    ]
    for method in AS_IN_THE_PAPER:
        text += [
            f"\n**{method}**\n",
            "| log ε | authentic | " + " | ".join(CLASSES) + " | same |",
            "|---:|---|" + "---:|" * 5,
        ]
        for e in LOG_EPSILONS:
            table = np.mean([r.agreement.p_classes for r in found.of(method, e)], axis=0).reshape(4, 4)
            for i, name in enumerate(CLASSES):
                cells = " | ".join(f"{v:.1f}" for v in table[i])
                same = f"{np.trace(table):.1f}" if i == 0 else ""
                text.append(f"| {e if i == 0 else ''} | {name} | {cells} | {same} |")
    return text


def _costs(found: Summary) -> list[str]:
    text = ["\n## Processor seconds for five sets\n", _head("method")]
    for m in (*AS_IN_THE_PAPER, *AS_BY_DEFAULT):
        cells = [f"{found.mean(m, e, lambda r: r.seconds):.1f}" for e in LOG_EPSILONS]
        text.append(f"| {m} | " + " | ".join(cells) + " |")
    text.append("\n## What divided the rows (first repetition, first set)\n")
    for m in AS_BY_DEFAULT:
        for e in LOG_EPSILONS:
            if m.startswith("STEPS, auto") and found.of(m, e)[0].layers:
                text.append(f"- {m}, log ε = {e}: {found.of(m, e)[0].layers}")
    return text


def _head(first: str) -> str:
    return (
        f"| {first} | " + " | ".join(f"log ε = {e}" for e in LOG_EPSILONS) + " |\n|---|" + "---:|" * len(LOG_EPSILONS)
    )


def _conclusions(found: Summary) -> str:
    """The text, with the figures it rests on taken from the results."""

    def at(method: str, e: int, pick: Pick = lambda r: r.ks, digits: int = 2) -> str:
        return f"{found.mean(method, e, pick):.{digits}f}"

    def state(r: Run) -> float:
        return r.agreement.registered_state

    def among(r: Run) -> float:
        return r.agreement.registered_all

    nothing, everything = constant_answers(found.runs)
    uh, uh3 = (
        min(found.mean(f"UH-{k}", e, TABLE[0][1]) - found.mean(f"STEPS-{k}", e, TABLE[0][1]) for e in LOG_EPSILONS)
        for k in (2, 3)
    )
    layers = [len(found.of("STEPS, auto", e)[0].layers.split(", ")) for e in (0, 2)]
    return f"""## What it shows

- **Noise in a million empty cells makes hundreds of times more rows than there are people.** A flat table is hopeless at
  every ε of the study ({at("flat", -2)} at ε = 0.14, {at("flat", 2)} at ε = 7.4); what survives is what the layers above
  hold, and every further layer lowers the distance, as the paper found.
- **The right number of layers is not two or three.** `Steps(layers="auto")` goes on while a layer's own noise does not
  outweigh the rows: {layers[0]} layers at ε = 1 and {layers[1]} at ε = 7.4. That, with columns chosen by the rows that a
  split puts in their place instead of by AIC, brings the distance from {at("STEPS-3", 0)} to {at("STEPS, auto", 0)} at
  ε = 1 and from {at("STEPS-3", 2)} to {at("STEPS, auto", 2)} at ε = 7.4, at the same ε and with the choice paid for.
- **AIC is a poor guide** ({at("STEPS, auto, AIC", 0)} at ε = 1): it prefers columns with few, skewed levels whether or not
  dividing by them repairs anything.
- **Projection instead of clipping** helps from ε = 1 on ({at("flat, projected", 2)} instead of {at("flat", 2)} at
  ε = 7.4); at hopeless noise it concentrates rows on few cells and is worse ({at("flat, projected", -2)} against
  {at("flat", -2)} at ε = 0.14).
- **A marginal-based method is the right tool for this table.** MST and AIM never look at its cells: {at("MST", 0)} and
  {at("AIM", 0)} at ε = 1. `dipsmith plan` says so before anything is spent.
- **Consistency rates of chi-squared tests rank nothing here.** {everything:.0%} of the pairs are associated, so "nothing is
  significant" scores {nothing:.3f} and "everything is" {everything:.3f}; the paper's methods lie between. D2 is a rule for
  missing data: sets that differ, as those of a private network do, give p-values near 1 however strong the association
  is. At ε = 7.4 PrivBayes agrees in {at("PrivBayes", 2, lambda r: r.agreement.single)} of the tests one set at a time and
  in {at("PrivBayes", 2, TABLE[2][1])} after D2.
- **The overlaps of the difference-in-differences model rank nothing either.** Its three coefficients of interest have
  no finite estimate, because nobody votes unregistered; their intervals are so wide that everything overlaps. Among the
  registered the model is sound. There, at ε = 7.4 in five sets, the preregistration effect's interval overlaps the
  authentic one by {at("STEPS-3", 2, state)} (STEPS-3), {at("STEPS, auto", 2, state)} (`Steps()`), {at("MST", 2, state)} (MST)
  and {at("AIM", 2, state)} (AIM), that of other people by {at(FLOOR, 0, state)}. AIM with the regression's own tables as its
  workload (`AIM, planned`): {at("AIM, planned", 2, state)}, and {at("AIM, planned", 2, among)} instead of
  {at("AIM", 2, among)} over all 30 coefficients. Overlaps above one half at small ε are intervals many times too
  wide, not merit: read them with the width.
- Random orders (UH) are worse than the order that somebody thought about, by {uh:.2f} to {uh3:.2f}: with two or three of
  fifteen columns there is not much to be had.
"""
