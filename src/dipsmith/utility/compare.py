"""`compare`: authentic and synthetic rows side by side, for the steward's eyes only.

Every call is a look at exact figures of private rows: it is written into the ledger before the first row is read, and
counted on the next release's card. Looks are not charged, because nothing is released; choosing among releases by
looking is a way to spend privacy that no ledger sees, and the count is there to be asked about.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dipsmith.counting.households import HouseholdRows
from dipsmith.errors import InputError, UsageError
from dipsmith.privacy.ledger import Ledger
from dipsmith.schema import Bins, Codes, Schema
from dipsmith.sources import Source, source
from dipsmith.synthesis.public import require_apart
from dipsmith.synthesis.release import Release
from dipsmith.utility.authentic import authentic_table
from dipsmith.utility.careers import read_careers
from dipsmith.utility.classifiers import available, require_known
from dipsmith.utility.comparison import Comparison
from dipsmith.utility.findings import Findings
from dipsmith.utility.households import HOUSEHOLDS
from dipsmith.utility.matching import Matched, join_by_identifier
from dipsmith.utility.metric import Chapter, Metric, MetricValue, SideBySide, all_metrics
from dipsmith.utility.pair import authentic_codes
from dipsmith.utility.raw_values import RAW_VALUES
from dipsmith.utility.regression import Regression, compare_regression
from dipsmith.utility.unfit_cells import find_unfit
from dipsmith.utility.wide_bins import widen_bins

DEFAULT_CLASSIFIERS = ("logistic", "interactions", "cart", "boosting")
MOST_RELEASES = 4
ROWS = 10_000
"""Classifiers other than logistic main effects, and attackers, see at most this many rows of each table."""

Progress = Callable[[str, float], None]


def compare(
    authentic: Any,
    *releases: Release | str | Path,
    ledger: Ledger | str | Path,
    analyses: Sequence[Regression | str | Mapping[str, Any]] = (),
    schema: Schema | None = None,
    names: Sequence[str] | None = None,
    classifiers: Sequence[Any] | None = None,
    sensitive: Sequence[str] | None = None,
    third: str | None = None,
    pairs: Sequence[tuple[str, str]] = (),
    third_file: Any = None,
    match_on: str | Sequence[str] | None = None,
    rows: int = ROWS,
    members: Any = None,
    draws: int = 40,
    seed: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Compare releases with the authentic rows. The result is CONFIDENTIAL.

    Every registered metric is shown, those of other packages too.

    Parameters
    ----------
    authentic, releases
        The confidential rows (a file, folder, glob or database address, or any frame), and one to four releases, or their
        folders, compared side by side.
    ledger
        Where the look is logged; required.
    analyses
        Regressions to compare: formulas, or `Regression` objects (or mappings) with `by`, `reference`, `family`.
    schema, names
        What codes mean (default: the schema that the first release was made by), and what to call the releases (default:
        method and budget).
    classifiers
        Who tries to tell the tables apart: "logistic", "interactions", "cart", "forest", "svm", "boosting", or any
        scikit-learn classifier. Default: logistic, interactions, CART and boosting.
    sensitive
        Columns to attack in the disclosure assessment; default: the synthesised ones.
    third, pairs
        The column that panel (a) crosses with the synthesised ones (default: the longest list that can be drawn), and
        pairs of columns of which the histograms of one are drawn within each level of the other.
    third_file, match_on
        A third file and the identifier (one or more columns) by which it is joined with the authentic rows; it is
        labelled by the release's model, and the labels compared. Without `third_file`, a release that holds the
        identifier itself is joined.
    rows
        Classifiers other than logistic main effects, and attackers, see at most so many rows of each table, drawn at
        random; chance is that of the same sample. More rows see smaller differences and take longer.
    members
        Where the releases have households: the authentic table of their members, to compare who lives with whom.
    draws, seed, progress
        Draws of every null distribution; for samples, folds and null draws; called with (stage, share done).

    Privacy
    -------
    Reads private rows exactly. Nothing of the result may be released. Each call is logged in the ledger before the
    first row is read, and counted on the card of the next release.
    """
    loaded = _load(releases, names)
    chosen = [c for c in DEFAULT_CLASSIFIERS if c in available()] if classifiers is None else classifiers
    require_known(chosen)
    wanted = [Regression.of(a) for a in analyses]
    base, widened = widen_bins(schema if schema is not None else _common_schema(loaded))
    columns = _columns(base, loaded, wanted)
    if match_on is None and third_file is not None:
        raise UsageError("a third file needs match_on=, the identifier by which it is joined")
    shown = _shown_pairs(pairs, columns)
    if third is not None and third not in columns:
        there = ", ".join(columns)
        raise UsageError(
            f"third is '{third}', no column of all tables (a file is --third-file or third_file=); there are: {there}"
        )
    on = (match_on,) if isinstance(match_on, str) else tuple(match_on or ())
    metrics = all_metrics()
    book = Ledger(ledger) if isinstance(ledger, str | Path) else ledger
    if not isinstance(book, Ledger):
        raise UsageError("a ledger is required, because every comparison is a look: ledger=Ledger('budget.db')")
    private = source(authentic)
    people = _people(members, base)
    of_unit = () if base.unit.order is None and people is None else (str(base.unit.column),)
    private.check([*columns, *(c for c in (*on, *of_unit) if c not in columns)])
    require_apart(base, [private, people], book)
    say = progress or (lambda stage, share: None)
    datasets = dict.fromkeys([base.name, *(r.card.dataset for r in loaded.values())])
    looks = [book.look(name, _look_note(loaded, wanted, on)) for name in datasets]

    codes, left_out = authentic_codes(private, base, columns, lambda share: say("reading", share))
    if not len(codes):
        raise UsageError("the authentic table has no row to compare with; check the file and the schema")
    homes = None if people is None else HouseholdRows(private, people, base, secrets.token_bytes(32)).roster()[0]
    own = dict.fromkeys([RAW_VALUES, HOUSEHOLDS, *(m.chapter for m in metrics if m.chapter is not None)])
    verbatim = set(base.public) if base.neighbours == "label" else set()
    points = [n for n in columns if n not in verbatim and isinstance(base[n].domain, Bins)]
    raw = authentic_table(private, base, points) if points else None
    linked = base.unit.order is not None and set(base.names) <= set(columns)
    careers = read_careers(private, base) if linked else None
    chapters = tuple(sorted(own, key=lambda chapter: chapter.place))
    single = tuple(m for m in metrics if m.chapter is None)
    findings, tables = [], []
    for name, release in loaded.items():
        joined = _match(private, codes, third_file, release, base, on) if on else None
        attacked = None if sensitive is None else tuple(sensitive)
        steps = _Steps(say, name, chapters)
        both = SideBySide(
            codes,
            release,
            base,
            None,
            tuple(chosen),
            attacked,
            joined,
            draws,
            seed,
            third,
            shown,
            raw,
            rows,
            careers,
            homes,
            steps,
        )
        results: dict[str, Any] = {}
        for chapter in chapters:
            if chapter.applies(both):
                steps.begin(chapter)
            results |= chapter.find(both)
        results["metrics"] = {m.name: _values(m, both) for m in single}
        say(f"comparing {name}", 1.0)
        pair = both.pairs[0]
        tables.append(both.tables[0])
        sizes = len(pair.authentic), len(pair.synthetic)
        findings.append(Findings(name, release.card, sizes, pair.given, pair.changed, results))
    regressions = []
    needed = {name for r in wanted for name in r.columns}
    table = authentic_table(private, base, [n for n in base.names if n in needed]) if wanted else None
    for i, regression in enumerate(wanted):
        assert table is not None
        part = table.select([n for n in table.column_names if n in regression.columns])
        regressions.append(compare_regression(regression, part, loaded, base))
        say("fitting", (i + 1) / len(wanted))
    told = left_out, looks[0], seed, chapters, single
    unfit = find_unfit(private, base, columns)
    return Comparison(base.name, base, tuple(findings), tuple(regressions), *told, tuple(tables), unfit, widened)


class _Steps:
    """Progress from chapter to chapter, and within one, as a share of all."""

    def __init__(self, say: Progress, release: str, chapters: Sequence[Chapter]) -> None:
        self._say, self._release, self._chapters = say, release, chapters
        self._now: Chapter | None = None

    def begin(self, chapter: Chapter) -> None:
        """Say what is being found out."""
        self._now = chapter
        self(0.0)

    def __call__(self, share: float) -> None:
        """Say how much of it is done."""
        assert self._now is not None
        before = sum(c.effort for c in self._chapters[: self._chapters.index(self._now)])
        done = (before + share * self._now.effort) / sum(c.effort for c in self._chapters)
        self._say(f"comparing {self._release}: {self._now.heading}", done)


def _people(given: Any, schema: Schema) -> Source | None:
    """The authentic members of households, if they are given; refused where the releases have none."""
    if given is None:
        return None
    if schema.members is None:
        raise UsageError("a table of members is given, but the releases have no households; leave it out")
    people = source(given)
    people.check(schema.members.schema.columns)
    return people


def _values(metric: Metric, both: SideBySide) -> list[MetricValue]:
    """What a metric gives; nothing where it is not made for this release."""
    try:
        return metric.values(both)
    except InputError:
        return [MetricValue(metric.name, float("nan"))]


def _load(releases: Sequence[Release | str | Path], names: Sequence[str] | None) -> dict[str, Release]:
    if not 1 <= len(releases) <= MOST_RELEASES:
        raise UsageError(f"{len(releases)} releases were given, expected one to {MOST_RELEASES}")
    loaded = [r if isinstance(r, Release) else Release.load(r) for r in releases]
    if names is not None and len(set(names)) != len(loaded):
        raise UsageError(f"names: {len(loaded)} different names are needed, got {', '.join(names) or 'none'}")
    called = list(names or [f"{r.card.method}, {r.card.price.split(' (')[0]}" for r in loaded])
    for name, release in zip(called, loaded, strict=True):
        if not all(t.num_rows for t in release.tables):
            raise UsageError(f"release '{name}' has a set without rows, and there is nothing to compare")
    if len(set(called)) < len(called):
        called = [f"{name} ({i})" for i, name in enumerate(called, start=1)]
    return dict(zip(called, loaded, strict=True))


def _common_schema(loaded: Mapping[str, Release]) -> Schema:
    """The schema of the first release; refuses releases whose codes mean something else."""
    first, *others = loaded.values()
    if not first.models:
        raise UsageError("the release has no model and so no schema of the authentic rows; give schema=")
    base = first.models[0].schema
    for release in others:
        other = release.models[0].schema if release.models else base
        for attribute in other:
            if attribute.name in base and base[attribute.name].domain != attribute.domain:
                raise UsageError(
                    f"column '{attribute.name}' has other levels or bins in one release than in another; "
                    "give schema= with levels that fit all, or compare them one by one"
                )
    return base


def _columns(schema: Schema, loaded: Mapping[str, Release], wanted: Sequence[Regression]) -> list[str]:
    shared = [n for n in schema.names if all(n in t.column_names for r in loaded.values() for t in r.tables)]
    if not shared:
        raise UsageError(f"the releases have no column in common with schema '{schema.name}'; give the right schema")
    for regression in wanted:
        if missing := [n for n in regression.columns if n not in shared]:
            raise UsageError(
                f"analysis '{regression.formula}' names '{missing[0]}', which is not in every table; there are: {', '.join(shared)}"
            )
    return shared


def _shown_pairs(pairs: Sequence[tuple[str, str]], columns: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Pairs of columns to be drawn; refuses what is no column, or one twice."""
    for pair in pairs:
        if len(pair) != 2 or pair[0] == pair[1] or not all(pair):
            raise UsageError(
                f"a pair is '{','.join(filter(None, pair))}', expected two columns, such as age,occupation"
            )
        if missing := [name for name in pair if name not in columns]:
            raise UsageError(f"a pair names '{missing[0]}', no column of all tables; there are: {', '.join(columns)}")
    return tuple((one, other) for one, other in pairs)


def _look_note(loaded: Mapping[str, Release], wanted: Sequence[Regression], on: tuple[str, ...]) -> str:
    """What the ledger notes about the look."""
    requests = ", ".join(r.card.request for r in loaded.values())
    more = f", {len(wanted)} analyses" if wanted else ""
    joined = f", joined by {' + '.join(on)}" if on else ""
    note = f"comparison with release {requests}{more}{joined}"
    return "".join(c if c.isprintable() else "?" for c in note)[:1000]


def _match(private: Source, codes: Codes, third: Any, release: Release, schema: Schema, on: tuple[str, ...]) -> Matched:
    public = schema.public if schema.neighbours == "label" else ()
    file = source(release.tables[0] if third is None else third)
    labelled = release.tables[0] if third is None else release.model.label(file, seed=0)
    targets = [n for n in codes.names if n not in public and n in labelled.column_names]
    return join_by_identifier(private, codes, file, labelled, schema, on, targets)
