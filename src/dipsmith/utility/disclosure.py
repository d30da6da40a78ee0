"""Attribute disclosure: how much better than the public baseline can a private label be guessed from the release.

An attacker who knows a person's other columns learns a classification rule from the synthetic rows and applies it
to the person. Three guesses of the same label are compared, on the authentic rows: the *baseline* (the most
frequent label, for everybody), the *attacker* (the rule learned from the release), and the *ceiling* (the same
kind of rule learned from authentic rows that are not scored). By accuracy, by the area under the ROC curve
(.5 is the baseline), and by how many people the attacker is sure of and how often rightly.

What a rule that holds in the population tells is not a breach: the attacker may approach the ceiling without
learning anything about a single person, and differential privacy does not prevent it. An attacker far above the
ceiling would be a breach. The *link* column asks for exactly that: the label of the released rows with the same
other columns, for those who have such rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

import numpy as np

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.errors import InputError
from dipsmith.methods.method import Labeller
from dipsmith.report import figures
from dipsmith.report.content import Block, Figure, Table
from dipsmith.schema import Codes, Marginal
from dipsmith.sources import source
from dipsmith.utility.classifiers import classifier_of, fit_copy, matrix
from dipsmith.utility.findings import Findings, each, figure, mean, series, table
from dipsmith.utility.matching import expected_correct
from dipsmith.utility.metric import Chapter, Metric, SideBySide
from dipsmith.utility.pair import Pair, authentic_codes

ROWS = 30_000
"""Rows of each table that are used at most."""
SURE = 0.9
MOST_CLASSES = 10
"""Targets with more labels than this are attacked by naive Bayes, which takes any number."""
GRID = np.linspace(0.0, 1.0, 101)


@dataclass(frozen=True, eq=False)
class Disclosure:
    """How well one column's labels are guessed.

    `baseline`, `attacker` and `ceiling` are shares of the people whose label is guessed right, by a rule of the kind `attack`
    ("boosting" or "naive Bayes"). Areas under the ROC curve are of each label against the rest, weighted by frequency.
    `sure` is the share for whom the attacker gives a label at least 90 %, `linked` the share whose other columns occur in the
    release. The curves are true positive rates at the false positive rates of `GRID`; `rows` is the number of people attacked.
    """

    target: str
    attack: str
    baseline: float
    attacker: float
    ceiling: float
    auc: float
    ceiling_auc: float
    sure: float
    sure_right: float
    linked: float
    linked_right: float
    linked_baseline: float
    roc: Floats
    ceiling_roc: Floats
    rows: int


def disclosure(pair: Pair, target: str, *, rows: int = ROWS, seed: int = 0) -> Disclosure:
    """Attack one column, knowing all others (or, where columns are given, those).

    Privacy
    -------
    Exact function of private rows: confidential.
    """
    rng = np.random.default_rng(seed)
    small = pair.sample(rows, rng)
    known = tuple(n for n in (pair.given or pair.names) if n != target)
    labels = pair.schema[target].size
    truth = small.authentic[target].astype(np.int64)
    half = _halves(small, rng)
    attack = "boosting" if labels <= MOST_CLASSES and find_spec("sklearn") is not None else "naive Bayes"
    learn = _boost if attack == "boosting" else _naive
    guess = learn(small.synthetic, known, target, seed)(small.authentic)
    best = np.empty_like(guess)
    for part in (False, True):
        rule = learn(small.authentic.take(half != part), known, target, seed)
        best[half == part] = rule(small.authentic.take(half == part))
    counts = np.bincount(truth, minlength=labels)
    common = int(counts.argmax())
    sure = guess.max(axis=1) >= SURE
    right = guess.argmax(axis=1) == truth
    linked, label = _link(small, known, target, labels)
    roc, auc = _roc(guess, truth, counts)
    ceiling_roc, ceiling_auc = _roc(best, truth, counts)
    shares = mean(truth == common), mean(right), mean(best.argmax(axis=1) == truth)
    certain = mean(sure), mean(right[sure])
    joined = mean(linked), mean((label == truth)[linked]), mean((truth == common)[linked])
    return Disclosure(target, attack, *shares, auc, ceiling_auc, *certain, *joined, roc, ceiling_roc, len(truth))


def _halves(pair: Pair, rng: np.random.Generator) -> Bools:
    """Two halves of the authentic rows; people with the same given columns stay together."""
    if pair.strata is None:
        return rng.random(len(pair.authentic)) < 0.5
    stratum = pair.strata[0]
    return np.asarray((rng.random(int(stratum.max(initial=0)) + 1) < 0.5)[stratum])


ATTACKER = {"max_iter": 15, "learning_rate": 0.2, "max_leaf_nodes": 8, "l2_regularization": 5.0}
"""Short trees, few of them, and a ridge on their leaves: on Adult a third of the time of thirty trees of sixteen leaves
without one, and a stronger attack, because rare labels no longer throw the leaves of all others off."""

Rule = Callable[[Codes], Floats]
"""Probabilities of all labels (columns) for rows."""


def _boost(rows: Codes, known: Sequence[str], target: str, seed: int) -> Rule:
    if not known or len(np.unique(rows[target])) < 2:
        # Nothing to learn, and scikit-learn refuses to: the frequencies are all there is.
        return _naive(rows, (), target, seed)
    predictors = rows.project(known)
    model = fit_copy(
        classifier_of("boosting", predictors, seed)[1].set_params(**ATTACKER),
        matrix(predictors, "codes"),
        rows[target].astype(np.int64),
    )

    def rule(others: Codes) -> Floats:
        found = np.zeros((len(others), rows.schema[target].size))
        found[:, model.classes_] = model.predict_proba(matrix(others.project(known), "codes"))
        return found

    return rule


def _naive(rows: Codes, known: Sequence[str], target: str, seed: int) -> Rule:
    """P(label) ∏ P(column | label), with half a row added to every cell."""
    schema, labels = rows.schema, rows.schema[target].size
    label = rows[target].astype(np.int64)
    prior = np.log(np.bincount(label, minlength=labels) + 0.5)
    tables = {}
    for name in known:
        size = schema[name].size
        counts = np.bincount(label * size + rows[name], minlength=labels * size).reshape(labels, size) + 0.5
        tables[name] = np.log(counts / counts.sum(axis=1, keepdims=True)).T

    def rule(others: Codes) -> Floats:
        logs = np.tile(prior, (len(others), 1))
        for name in known:
            logs += tables[name][others[name]]
        odds = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    return rule


def _link(pair: Pair, known: Sequence[str], target: str, labels: int) -> tuple[Bools, Ints]:
    """Whose other columns occur in the release, and the most frequent label of those rows."""
    mine, other, groups = pair.number_groups(known)
    table = np.bincount(other * labels + pair.synthetic[target], minlength=groups * labels)
    table = table.reshape(groups, labels)
    return table.sum(axis=1)[mine] > 0, table.argmax(axis=1)[mine]


def _roc(guess: Floats, truth: Ints, counts: Ints) -> tuple[Floats, float]:
    """The ROC curve and its area, each label against the rest, averaged by frequency."""
    curves, areas, weights = [], [], []
    for label in np.flatnonzero((counts > 0) & (counts < len(truth))):
        positive = truth == label
        order = np.argsort(-guess[:, label], kind="stable")
        scores = guess[order, label]
        last = np.append(scores[1:] != scores[:-1], True)
        hits = np.append(0.0, np.cumsum(positive[order])[last] / positive.sum())
        misses = np.append(0.0, np.cumsum(~positive[order])[last] / (~positive).sum())
        curves.append(np.interp(GRID, misses, hits))
        areas.append(float(np.trapezoid(hits, misses)))
        weights.append(float(counts[label]))
    if not weights:
        return GRID.copy(), float("nan")
    return np.average(curves, axis=0, weights=weights), float(np.average(areas, weights=weights))


MOST_SENSITIVE = 4
RAREST = 1e-9
"""Probabilities below this count as it: a label that was called impossible costs 21 nats, not infinity."""


def _attacks(both: SideBySide) -> tuple[Disclosure, ...]:
    """Attack the sensitive columns: by default the synthesised ones, where those are few and short."""
    pair = both.pairs[0]
    short = [n for n in pair.changed if 2 <= pair.schema[n].size <= (50 if pair.given else 10)]
    targets = short[:MOST_SENSITIVE]
    if both.sensitive is not None:
        targets = [n for n in both.sensitive if n in pair.changed]
    return tuple(disclosure(pair, target, rows=min(both.rows, ROWS), seed=both.seed) for target in targets)


def _find(both: SideBySide) -> dict[str, Any]:
    model = both.release.models[0].inner if both.release.models else None
    correct = expected_correct(model, both.authentic)
    return {"disclosures": _attacks(both), "correct": correct, "matched": both.matched}


def _blocks(found: Sequence[Findings]) -> list[Block]:
    blocks: list[Block] = []
    shares = ("target", "share", "by_chance")
    if attacked := [f for f in found if f["disclosures"]]:
        guesses = table(
            "Guessing a person's label from their other columns: share guessed right",
            ("label", "rule", "baseline", "attacker", "ceiling", "AUC", "ceiling AUC", "people"),
            attacked,
            each("disclosures", "target", "attack", "baseline", "attacker", "ceiling", "auc", "ceiling_auc", "rows"),
            "Baseline: the most frequent label for everybody. Attacker: a rule learned from the release. Ceiling: the same "
            "kind of rule learned from other authentic rows. Up to the ceiling the attacker has learned about the "
            "population, not about a person. People: how many were attacked, a random sample where there are more.",
        )
        right = "right among them"
        certain = table(
            "When the attacker is sure, and when the other columns lead to released rows",
            ("label", f"sure (≥ {SURE:.0%})", right, "linked", right, "baseline among them"),
            attacked,
            each("disclosures", "target", "sure", "sure_right", "linked", "linked_right", "linked_baseline"),
            "Sure: people for whom the attacker's rule gives a label that much. Linked: people whose other columns occur in "
            "the release; the guess is the most frequent label there.",
        )
        blocks += [guesses, _roc_figure(attacked), certain]
    if labelled := [f for f in found if f["correct"]]:
        title = "Correctly synthesised labels: expected share, row by row"
        note = "The mean probability that the model gives a person's true label."
        columns = ("label", "right", "drawn from the marginal")
        blocks.append(table(title, columns, labelled, each("correct", *shares), note))
    for f in found:
        if (m := f["matched"]) is not None:
            on = " + ".join(m.on) + (series(found, f, "") and f", {f.name}")
            title = f"A third file joined by {on}: {m.rows:,} rows, {m.matched:.1%} matched"
            note = f"{m.ambiguous:.1%} of its rows have an identifier that occurs more than once and are not counted."
            rows = [attrgetter(*shares)(c) for c in m.correct]
            blocks.append(Table.of(title, ("label", "right among matched", "by chance"), rows, note))
    return blocks


def _roc_figure(found: Sequence[Findings]) -> Figure:
    first: tuple[Disclosure, ...] = found[0]["disclosures"]
    attacks = [(f, f["disclosures"][i]) for i in range(len(first)) for f in found]
    panels = []
    for i, best in enumerate(first):
        lines = [figures.ChartLine(series(found, f, "attacker"), f["disclosures"][i].roc) for f in found]
        title = f"{best.target} (AUC {best.auc:.2f}, ceiling {best.ceiling_auc:.2f})"
        panels.append((title, figures.ChartLine("ceiling", best.ceiling_roc), lines))
    svg, columns = "", ("release", "label", "attacker", "ceiling")
    areas = [(f.name, d.target, d.auc, d.ceiling_auc) for f, d in attacks]
    numbers = Table.of("Area under the ROC curve", columns, areas)
    if figures.available():
        svg = figures.curves(panels, GRID, "false positive rate", "true positive rate")
        curves = [(f, d, *map(float, p)) for f, d in attacks for p in zip(GRID, d.roc, d.ceiling_roc, strict=True)]
        rows = [(f.name, d.target, *point) for f, d, *point in curves]
        numbers = Table.of("ROC", (*columns[:2], "false positive rate", *columns[2:]), rows)
    in_words = "; ".join(f"{d.target}: attacker {d.auc:.2f}, ceiling {d.ceiling_auc:.2f}" for d in first)
    return figure(
        found,
        "How much better than the baseline does the release let one guess?",
        svg,
        "ROC curves of each label against the rest, averaged by frequency.",
        f"ROC curves; area under the curve: {in_words}; the baseline has 0.5.",
        numbers,
        "roc",
    )


DISCLOSURE = Chapter("Attribute disclosure", _find, _blocks, place=7)


def _auc(both: SideBySide) -> tuple[float, float]:
    attacks = _attacks(both)
    return mean([a.auc for a in attacks]), mean([a.ceiling_auc for a in attacks])


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
    joint = Marginal.of(schema, model.targets).index(rows)
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
    "log-loss", "log loss of labels of unseen rows", "lower", _log_loss, "the label marginal alone", DISCLOSURE
)
