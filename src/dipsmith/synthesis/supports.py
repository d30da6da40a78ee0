"""What a release carries: for a formula or some columns, whether it was measured, is implied, or is not there at all.

* *measured*: noisy tables hold every group of columns that the analysis needs, with a known standard error: for least
  squares all pairs of the formula's columns, for products of terms the triples; for a planned analysis its own sums.
* *carried*: response and terms are together in noisy tables, or the leaves of trees divide by them finely enough.
* *not carried*: no noisy table holds response and term together. The rows relate them by way of other columns, if at all,
  and intervals do not cover the truth.

Whether a formula is answered is decided by `dipsmith.synthesis.answers`, of which this says what tables hold.
Made from the measurements, the model and public facts alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, combinations_with_replacement
from typing import TYPE_CHECKING, Any, Literal

from dipsmith.errors import UsageError
from dipsmith.methods.method import Keeping
from dipsmith.regression.formula import RegressionFormula
from dipsmith.report.sections import number
from dipsmith.schema import Bins
from dipsmith.schema.analysis import BY
from dipsmith.schema.formula.tree import Column as Named
from dipsmith.schema.formula.tree import Node
from dipsmith.schema.formula.words import abridge
from dipsmith.synthesis.holdings import Holding, Holdings
from dipsmith.synthesis.needs import Need, Uses, coarseness

if TYPE_CHECKING:
    from dipsmith.synthesis.release import Release

Level = Literal["measured", "carried", "not carried"]
LEVELS: tuple[Level, ...] = ("measured", "carried", "not carried")

LEAST_CARRIED = 0.8
"""Trees carry a relation if their leaves let through at least this share of an effect."""


@dataclass(frozen=True)
class Support:
    """How far a release supports an analysis.

    `tables` are the noisy tables that hold it, `standard_error` the noise on one count of the noisiest of them (0: public;
    None where there is none), `typical_count` the number of rows in an average cell of that table. `in_rows` says whether
    the synthetic rows follow those tables too, `coarse` that a column is used more finely than it was measured,
    `by_trees` that leaves of trees carry it. `reason` is one sentence; `ask` is what to ask the steward for. Of a formula,
    `parts` are the groups of columns that it needs.
    """

    asked: str
    columns: tuple[str, ...]
    level: Level
    reason: str
    ask: str = ""
    tables: tuple[str, ...] = ()
    standard_error: float | None = None
    typical_count: float | None = None
    in_rows: bool = True
    public: bool = False
    planned: bool = False
    coarse: bool = False
    by_trees: bool = False
    parts: tuple[Support, ...] = ()

    @property
    def noise_dominates(self) -> bool:
        """Whether noise outweighs the average count."""
        if self.standard_error is None or self.typical_count is None:
            return False
        return self.standard_error > self.typical_count

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        names = ("asked", "level", "reason", "ask", "tables", "standard_error", "in_rows", "public", "planned")
        facts = {name: getattr(self, name) for name in names} | {"tables": list(self.tables)}
        parts = [{"columns": list(p.columns), "level": p.level, "reason": p.reason} for p in self.parts]
        return facts | ({"parts": parts} if parts else {})

    def __str__(self) -> str:
        lines = [f"{self.asked}: {self.level}", f"  {self.reason}"]
        return "\n".join([*lines, f"  {self.ask}"] if self.ask else lines)


@dataclass(frozen=True, eq=False)
class SupportIndex:
    """Answers what a release supports; made once for a release."""

    release: Release

    def __post_init__(self) -> None:
        if not self.release.measurements:
            raise UsageError(
                "what this release carries is not known: it was made by an earlier version, which kept no measurements; "
                "ask the steward to make it anew"
            )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns of the release."""
        return tuple(n for n in self.release.schema.names)

    @cached_property
    def public(self) -> frozenset[str]:
        """The columns that are released as they stand."""
        schema = self.release.schema
        return frozenset(schema.public if schema.neighbours == "label" else ())

    @cached_property
    def holdings(self) -> tuple[Holdings, ...]:
        """The noisy tables, for each set by itself where sets were sanitised separately."""
        release, tables = self.release, self.release.measurements
        if release.card.each != "split" or len(release.models) == 1:
            return (Holdings.of(tables, release.schema, release.card.rows),)
        own = [[t for t in tables if t.block.split("/")[0] == f"set {i + 1}"] for i in range(len(release.models))]
        return tuple(Holdings.of(some, release.schema, release.card.rows) for some in own)

    @cached_property
    def kept_groups(self) -> frozenset[frozenset[str]] | None:
        """Groups of columns whose tables all models' rows follow; None where a model does not say."""
        found: set[frozenset[str]] | None = None
        for model in self.release.models:
            if model.missing or not isinstance(model.inner, Keeping):
                return None
            groups = {frozenset(g) for g in model.inner.kept_tables()}
            found = groups if found is None else {a & b for a in found for b in groups}
        return frozenset(found or ())

    # --- groups of columns ---------------------------------------------------------------------------

    def columns(self, *names: str) -> Support:
        """Whether some columns are together in the release, at the resolution at which they are released."""
        for name in names:
            if name not in self.names:
                raise UsageError(f"there is no column '{abridge(name)}'; there are: {', '.join(self.names[:20])}")
        found = self._group(tuple(dict.fromkeys(names)))
        if found.level == "measured" and not found.public:
            for name in found.columns:
                own = (Named(name),) if isinstance(self.release.schema[name].domain, Bins) else ()
                if not (words := self._coarse(name, own)):
                    continue
                reason = f"{found.reason} But {words}: within these, {name} says nothing of the others."
                return replace(found, level="carried", reason=reason, ask=_ask_columns(found.columns), coarse=True)
        return found

    def _group(self, names: tuple[str, ...]) -> Support:
        """Whether some columns are together in noisy tables, at the schema's resolution: the worst of all sets."""
        private = [n for n in names if n not in self.public]
        asked = " × ".join(names)
        if not private:
            return Support(asked, names, "measured", _say_released(names), standard_error=0.0, public=True)
        if names not in self._group_supports:
            each = [self._group_in(names, holdings) for holdings in self.holdings]
            self._group_supports[names] = max(each, key=lambda s: (LEVELS.index(s.level), s.standard_error or 0.0))
        return self._group_supports[names]

    @cached_property
    def _group_supports(self) -> dict[tuple[str, ...], Support]:
        return {}

    def _group_in(self, names: tuple[str, ...], holdings: Holdings) -> Support:
        schema, rows = self.release.schema, max(self.release.card.rows, 1)
        held, asked = holdings.best_table(names), " × ".join(names)
        typical = rows / schema.size(names)
        if held is not None and held.whole:
            kept = self.kept_groups is None or any(set(names) <= group for group in self.kept_groups)
            found = Support(asked, names, "measured", "", "", (held.table,), held.standard_error, typical, kept)
            follows = kept and not found.noise_dominates and held.made_rows <= rows
            return replace(found, reason=_say_measured(found, held, rows), in_rows=follows)
        if held is not None:
            reason = f"Of the noisy table {held.table} only large counts were kept, which hold nearly all rows."
            return Support(asked, names, "carried", reason, _ask_columns(names), (held.table,))
        trees, share = holdings.best_trees(names)
        ask = _ask_columns(names)
        if share >= LEAST_CARRIED:
            reason = f"Trees divide the rows by {_list_columns(names)} finely: about {share:.0%} of even a small effect gets through."
            return Support(asked, names, "carried", reason, ask, (trees,), by_trees=True)
        if share > 0:
            reason = (
                f"No noisy table holds {_list_columns(names)} together, and trees divide the rows by them too coarsely: of a small effect "
                f"as little as {share:.0%} may be left in the rows."
            )
            return Support(asked, names, "not carried", reason, ask, (trees,), in_rows=False)
        return Support(asked, names, "not carried", _say_absent(names), ask, in_rows=False)

    # --- formulas --------------------------------------------------------------------------------------

    def formula(self, text: str) -> Support:
        """Whether a regression can be answered, and from what."""
        by = BY.search(text)
        parsed = RegressionFormula.parse(BY.sub("", text).strip(), self.names)
        if by is not None and by.group(1) not in self.names:
            raise UsageError(f"there is no column '{abridge(by.group(1))}'; there are: {', '.join(self.names[:20])}")
        asked = " ".join(text.split())
        columns = tuple(dict.fromkeys((*parsed.columns, *((by.group(1),) if by else ()))))
        if planned := self._planned_support(asked, columns):
            return planned
        need = Need.of(parsed, by.group(1) if by else None)
        main = {group: self._needed_support(group, need.uses) for group in need.main}
        rest = {group: self._needed_support(group, need.uses) for group in need.rest if group not in main}
        parts = tuple(sorted((*main.values(), *rest.values()), key=lambda p: -LEVELS.index(p.level)))
        worst_main = max(main.values(), key=lambda p: LEVELS.index(p.level))
        worst = max(parts, key=lambda p: LEVELS.index(p.level))
        noisy = [p for p in parts if not p.public]
        errors = [p.standard_error for p in noisy if p.standard_error is not None]
        found = Support(
            asked=asked,
            columns=columns,
            level="measured",
            reason="",
            ask=f"Ask the steward to plan it: --analysis {quote(asked)}.",
            tables=tuple(dict.fromkeys(t for p in noisy for t in p.tables)),
            standard_error=max(errors, default=0.0 if not noisy else None),
            in_rows=all(p.in_rows for p in parts),
            public=not noisy,
            parts=parts,
        )
        refused = next(
            (p for p in (worst_main, *parts) if p.level == "not carried" and (p is worst_main or p.coarse)), None
        )
        if refused is not None:
            return replace(found, level="not carried", reason=refused.reason, in_rows=False, coarse=refused.coarse)
        together = self._group(columns) if any(p.by_trees for p in parts) else None
        if together is not None and together.level == "not carried":
            # Leaves that ask one column or another carry each pair, and lose what remains of one given the other.
            return replace(found, level="not carried", reason=together.reason, in_rows=False)
        if worst.level == "not carried":
            reason = (
                f"Response and terms are in noisy tables, but {_list_columns(worst.columns)} are not together in any: what the two share is "
                "left to the model's assumptions, and estimates may be off by a third."
            )
            return replace(found, level="carried", reason=reason)
        if worst.level == "carried":
            return replace(found, level="carried", reason=worst.reason)
        return replace(found, reason=_say_all_measured(found), ask="")

    def _planned_support(self, asked: str, columns: tuple[str, ...]) -> Support | None:
        """The results of an analysis that was agreed upon before."""
        results = [r for r in self.release.results if " ".join(r.formula.split()) == asked]
        told = [c for r in results for c in r.coefficients if c.se is not None]
        if not told:
            return None
        worst = max(c.se or 0.0 for c in told)
        reason = (
            "It was planned: its own sums were measured, and results.json has the estimates, the largest standard error "
            f"being {worst:.3g}."
        )
        apart = next((r.row_difference for r in results if r.row_difference), "")
        if apart:
            reason = f"{reason} But the rows do not carry it: {apart}; use results.json or ds.fit, not lm."
        # What noise hides in part is not given to the labels to carry.
        follows = not apart and len(told) == sum(len(r.coefficients) for r in results)
        return Support(asked, columns, "measured", reason, tables=("results.json",), in_rows=follows, planned=True)

    def _needed_support(self, group: tuple[str, ...], uses: Uses) -> Support:
        """One group of columns of a formula, at the resolution at which the formula uses them."""
        found = self._group(group)
        if found.public or found.level == "not carried":
            return found
        for name in group:
            if words := self._coarse(name, uses.get(name, ())):
                others = _list_columns([n for n in group if n not in self.public])
                reason = f"Together with {others} '{name}' was measured only as the schema groups it, and {words}."
                return replace(found, level="not carried", reason=reason, in_rows=False, coarse=True)
        return found

    # --- resolution ------------------------------------------------------------------------------------

    def _coarse(self, name: str, uses: tuple[Node, ...]) -> str:
        """In words, how much coarser a public column was seen than it is used."""
        if name not in self.public:
            return ""
        key = (name, uses)
        if key not in self._coarse_uses:
            column = self.release.tables[0].column(name) if self.release.tables.in_memory else None
            self._coarse_uses[key] = coarseness(self.release.schema[name], uses, column)
        return self._coarse_uses[key]

    @cached_property
    def _coarse_uses(self) -> dict[tuple[str, tuple[Node, ...]], str]:
        return {}

    # --- the map ---------------------------------------------------------------------------------------

    def pairs(self) -> Iterator[Support]:
        """Every column, and every two of them."""
        for one, other in combinations_with_replacement(self.names, 2):
            yield self.columns(one) if one == other else self.columns(one, other)

    def worst_pairs(self) -> list[Support]:
        """Every two columns of which one is private: those that are not carried first, then the noisiest."""
        return sorted(
            (self.columns(*two) for two in combinations(self.names, 2) if not set(two) <= self.public), key=_badness
        )


def _badness(found: Support) -> tuple[int, float, str]:
    noise = (found.standard_error or 0.0) / (found.typical_count or 1.0)
    return -LEVELS.index(found.level), -noise, found.asked


def _say_released(names: Sequence[str]) -> str:
    return f"{_list_columns(names)} {'is' if len(names) == 1 else 'are'} public and released as {'it stands' if len(names) == 1 else 'they stand'}."


def _say_measured(found: Support, held: Holding, rows: int) -> str:
    noise = f"the noise on one count is ±{number(held.standard_error)} (standard error)"
    if found.noise_dominates:
        return f"The noisy table {held.table} holds it, but {noise}, more than an average cell has rows."
    apart = "" if found.in_rows else "; the model was too small to follow it: use the noisy table, not the rows"
    if not apart and held.made_rows > rows:
        apart = f"; noise makes about {held.made_rows:,.0f} rows in its empty cells: use the noisy table, not the rows"
    return f"The noisy table {held.table} holds it; {noise}{apart}."


def _say_all_measured(found: Support) -> str:
    if found.public:
        return "All of its columns are public and released as they stand."
    tables = list(found.tables)
    some = _list_columns([f"({t})" if " × " in t else t for t in tables[:3]])
    more = f" and {len(tables) - 3} more" if len(tables) > 3 else ""
    noise = f"±{number(found.standard_error)}"
    noisy = "; noise outweighs the average count in some" if any(p.noise_dominates for p in found.parts) else ""
    return f"Noisy tables hold every group of columns that it needs: {some}{more}; at most {noise} on one count{noisy}."


def _say_absent(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"'{names[0]}' was not measured: its distribution is the model's assumption."
    return f"No noisy table holds {_list_columns(names)} together: the rows relate them by way of other columns, if at all."


def _ask_columns(names: Sequence[str]) -> str:
    return f"Ask the steward for a table of {' × '.join(names)}, or to plan an analysis that names them (--analysis)."


def _list_columns(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def quote(text: str) -> str:
    """A formula as a shell takes it."""
    return f"'{text}'" if "'" not in text else f'"{text}"'
