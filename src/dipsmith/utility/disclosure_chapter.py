"""The chapter of a comparison about attribute disclosure: attacks, correct labels, the third file."""

from __future__ import annotations

from collections.abc import Sequence

from dipsmith.report import figures
from dipsmith.report.content import Block, Figure, Section, Table
from dipsmith.utility.captions import parameters, sizes, table
from dipsmith.utility.disclosure import GRID, SURE
from dipsmith.utility.findings import Findings


def disclosure(found: Sequence[Findings]) -> Section:
    """Attribute disclosure, correct labels, the third file."""
    blocks: list[Block] = []
    attacked = [f for f in found if f.disclosures]
    if attacked:
        blocks.append(
            table(
                "Guessing a person's label from their other columns: share guessed right",
                ("label", "rule", "baseline", "attacker", "ceiling", "AUC", "ceiling AUC"),
                [
                    (
                        f,
                        [
                            (d.target, d.attack, d.baseline, d.attacker, d.ceiling, d.auc, d.ceiling_auc)
                            for d in f.disclosures
                        ],
                    )
                    for f in attacked
                ],
                "Baseline: the most frequent label for everybody. Attacker: a rule learned from the release. Ceiling: the same "
                "kind of rule learned from other authentic rows. Up to the ceiling the attacker has learned about the "
                "population, not about a person.",
            )
        )
        blocks.append(_roc(attacked))
        blocks.append(
            table(
                "When the attacker is sure, and when the other columns lead to released rows",
                (
                    "label",
                    f"sure (≥ {SURE:.0%})",
                    "right among them",
                    "linked",
                    "right among them",
                    "baseline among them",
                ),
                [
                    (
                        f,
                        [
                            (d.target, d.sure, d.sure_right, d.linked, d.linked_right, d.linked_baseline)
                            for d in f.disclosures
                        ],
                    )
                    for f in attacked
                ],
                "Sure: people for whom the attacker's rule gives a label that much. Linked: people whose other columns occur in "
                "the release; the guess is the most frequent label there.",
            )
        )
    correct = [(f, [(c.target, c.share, c.by_chance) for c in f.correct]) for f in found if f.correct]
    if correct:
        blocks.append(
            table(
                "Correctly synthesised labels: expected share, row by row",
                ("label", "right", "drawn from the marginal"),
                correct,
                "The mean probability that the model gives a person's true label.",
            )
        )
    for f in found:
        if f.matched is not None:
            m = f.matched
            name = "" if len(found) == 1 else f", {f.name}"
            blocks.append(
                Table.of(
                    f"A third file joined by {' + '.join(m.on)}{name}: {m.rows:,} rows, {m.matched:.1%} matched",
                    ("label", "right among matched", "by chance"),
                    [(c.target, c.share, c.by_chance) for c in m.correct],
                    f"{m.ambiguous:.1%} of its rows have an identifier that occurs more than once and are not counted.",
                )
            )
    return Section("Attribute disclosure", tuple(blocks))


def _roc(found: Sequence[Findings]) -> Figure:
    targets = [d.target for d in found[0].disclosures]
    panels, rows = [], []
    for i, target in enumerate(targets):
        lines = []
        for f in found:
            d = f.disclosures[i]
            lines.append(figures.Line("attacker" if len(found) == 1 else f.name, d.roc))
            rows += [
                (f.name, target, float(x), float(a), float(c))
                for x, a, c in zip(GRID, d.roc, d.ceiling_roc, strict=True)
            ]
        first = found[0].disclosures[i]
        panels.append(
            (
                f"{target} (AUC {first.auc:.2f}, ceiling {first.ceiling_auc:.2f})",
                figures.Line("ceiling", first.ceiling_roc),
                lines,
            )
        )
    svg = ""
    if figures.available():
        svg = figures.curves(panels, GRID, "false positive rate", "true positive rate")
    said = "; ".join(
        f"{d.target}: attacker {d.auc:.2f}, ceiling {d.ceiling_auc:.2f}" for d in found[0].disclosures
    )
    summary = Table.of(
        "Area under the ROC curve",
        ("release", "label", "attacker", "ceiling"),
        [(f.name, d.target, d.auc, d.ceiling_auc) for f in found for d in f.disclosures],
    )
    return Figure(
        title="How much better than the baseline does the release let one guess?",
        svg=svg,
        caption=f"ROC curves of each label against the rest, averaged by frequency. {sizes(found)}",
        alternative=f"ROC curves; area under the curve: {said}; the baseline has 0.5.",
        numbers=Table.of("ROC", ("release", "label", "false positive rate", "attacker", "ceiling"), rows)
        if svg
        else summary,
        parameters=parameters(found),
        file="numbers/roc",
    )
