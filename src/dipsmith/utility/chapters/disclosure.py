"""What does the release tell about people? Attacks on labels, correct labels, a third file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dipsmith.errors import InputError
from dipsmith.methods.method import Labeller
from dipsmith.report import figures
from dipsmith.report.content import Block, Figure, Table
from dipsmith.sources import source
from dipsmith.utility.captions import Rows, parameters, series, sizes, table
from dipsmith.utility.disclosure import GRID, SURE, Disclosure, disclosure
from dipsmith.utility.findings import Findings
from dipsmith.utility.matching import expected_correct
from dipsmith.utility.metric import Chapter, Metric
from dipsmith.utility.pair import authentic_codes
from dipsmith.utility.side_by_side import SideBySide

MOST_SENSITIVE = 4
RAREST = 1e-9
"""Probabilities below this count as it, in log losses."""


def _attacks(both: SideBySide) -> tuple[Disclosure, ...]:
    """Attack the sensitive columns: by default the synthesised ones, where those are few and short."""
    pair = both.pairs[0]
    short = [n for n in pair.changed if 2 <= pair.schema[n].size <= (50 if pair.given else 10)]
    targets = short[:MOST_SENSITIVE]
    if both.sensitive is not None:
        targets = [n for n in both.sensitive if n in pair.changed]
    return tuple(disclosure(pair, target, seed=both.seed) for target in targets)


def _find(both: SideBySide) -> dict[str, Any]:
    model = both.release.models[0].inner if both.release.models else None
    correct = expected_correct(model, both.authentic)
    return {"disclosures": _attacks(both), "correct": correct, "matched": both.matched}


def _blocks(found: Sequence[Findings]) -> list[Block]:
    blocks: list[Block] = []
    if attacked := [f for f in found if f["disclosures"]]:
        blocks += [_guesses(attacked), _roc(attacked), _certain(attacked)]
    if labelled := [f for f in found if f["correct"]]:
        blocks.append(
            table(
                "Correctly synthesised labels: expected share, row by row",
                ("label", "right", "drawn from the marginal"),
                labelled,
                lambda f: [(c.target, c.share, c.by_chance) for c in f["correct"]],
                "The mean probability that the model gives a person's true label.",
            )
        )
    for f in found:
        if (m := f["matched"]) is not None:
            name = series(found, f, "") and f", {f.name}"
            blocks.append(
                Table.of(
                    f"A third file joined by {' + '.join(m.on)}{name}: {m.rows:,} rows, {m.matched:.1%} matched",
                    ("label", "right among matched", "by chance"),
                    [(c.target, c.share, c.by_chance) for c in m.correct],
                    f"{m.ambiguous:.1%} of its rows have an identifier that occurs more than once and are not counted.",
                )
            )
    return blocks


def _guesses(found: Sequence[Findings]) -> Table:
    return table(
        "Guessing a person's label from their other columns: share guessed right",
        ("label", "rule", "baseline", "attacker", "ceiling", "AUC", "ceiling AUC"),
        found,
        lambda f: [
            (d.target, d.attack, d.baseline, d.attacker, d.ceiling, d.auc, d.ceiling_auc)
            for d in f["disclosures"]
        ],
        "Baseline: the most frequent label for everybody. Attacker: a rule learned from the release. Ceiling: the same "
        "kind of rule learned from other authentic rows. Up to the ceiling the attacker has learned about the "
        "population, not about a person.",
    )


def _certain(found: Sequence[Findings]) -> Table:
    right = "right among them"
    return table(
        "When the attacker is sure, and when the other columns lead to released rows",
        ("label", f"sure (≥ {SURE:.0%})", right, "linked", right, "baseline among them"),
        found,
        lambda f: [
            (d.target, d.sure, d.sure_right, d.linked, d.linked_right, d.linked_baseline)
            for d in f["disclosures"]
        ],
        "Sure: people for whom the attacker's rule gives a label that much. Linked: people whose other columns occur in "
        "the release; the guess is the most frequent label there.",
    )


def _roc(found: Sequence[Findings]) -> Figure:
    panels = []
    numbers: Rows = []
    areas: Rows = []
    first: tuple[Disclosure, ...] = found[0]["disclosures"]
    for i, best in enumerate(first):
        lines = []
        for f in found:
            d: Disclosure = f["disclosures"][i]
            lines.append(figures.Line(series(found, f, "attacker"), d.roc))
            points = zip(GRID.tolist(), d.roc.tolist(), d.ceiling_roc.tolist(), strict=True)
            numbers += [(f.name, d.target, *point) for point in points]
            areas.append((f.name, d.target, d.auc, d.ceiling_auc))
        title = f"{best.target} (AUC {best.auc:.2f}, ceiling {best.ceiling_auc:.2f})"
        panels.append((title, figures.Line("ceiling", best.ceiling_roc), lines))
    svg = (
        figures.curves(panels, GRID, "false positive rate", "true positive rate")
        if figures.available()
        else ""
    )
    in_words = "; ".join(f"{d.target}: attacker {d.auc:.2f}, ceiling {d.ceiling_auc:.2f}" for d in first)
    columns = ("release", "label", "false positive rate", "attacker", "ceiling")
    summary = Table.of("Area under the ROC curve", ("release", "label", "attacker", "ceiling"), areas)
    return Figure(
        title="How much better than the baseline does the release let one guess?",
        svg=svg,
        caption=f"ROC curves of each label against the rest, averaged by frequency. {sizes(found)}",
        alternative=f"ROC curves; area under the curve: {in_words}; the baseline has 0.5.",
        numbers=Table.of("ROC", columns, numbers) if svg else summary,
        parameters=parameters(found),
        file="numbers/roc",
    )


DISCLOSURE = Chapter("Attribute disclosure", _find, _blocks, place=7)


def _auc(both: SideBySide) -> tuple[float, float]:
    attacks = _attacks(both)
    if not attacks:
        return float("nan"), float("nan")
    return float(np.mean([a.auc for a in attacks])), float(np.mean([a.ceiling_auc for a in attacks]))


def _log_loss(both: SideBySide) -> tuple[float, float]:
    """Loss of the labels of rows that the run did not see, where there are such rows, else of its own."""
    model = both.release.model.inner
    if not isinstance(model, Labeller):
        raise InputError("metric 'log-loss' is for methods that label rows (forest, loglinear)")
    rows, schema = both.authentic, both.schema
    if both.fresh is not None:
        names = [n for n in schema.names if n in rows.names]
        rows = authentic_codes(source(both.fresh), schema, names)[0]
    p = model.probabilities(rows)
    joint = np.zeros(len(rows), dtype=np.int64)
    for name in model.targets:
        joint = joint * schema[name].size + rows[name]
    seen = np.bincount(joint, minlength=p.shape[1]) / max(1, len(rows))
    marginal = -float((seen[seen > 0] * np.log(seen[seen > 0])).sum())
    return -float(np.log(np.maximum(p[np.arange(len(rows)), joint], RAREST)).mean()), marginal


ATTACK_AUC = Metric(
    "attack-auc",
    "area under the ROC curve of an attack on labels",
    "target",
    _auc,
    "the same attack learned from other authentic rows",
    DISCLOSURE,
)
LOG_LOSS = Metric(
    "log-loss",
    "log loss of labels of unseen rows",
    "lower",
    _log_loss,
    "the label marginal alone",
    DISCLOSURE,
)
