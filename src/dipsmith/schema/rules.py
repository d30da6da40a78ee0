"""Impossible combinations, declared in public: structural zeros.

A rule says that a conjunction of conditions never happens (``never: {age: {below: 20}, occupation: "06"}``). Rows that
break a rule are counted nowhere; no method ever produces one. A condition is about labels as released. A bin that lies
only partly inside a range is left alone: ruling it out would rule out values that the steward did not name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import SchemaError
from dipsmith.schema.attribute import Attribute
from dipsmith.schema.bins import as_plain, point
from dipsmith.schema.domain import Bins, Domain

RANGE = ("below", "above", "from", "to")


@dataclass(frozen=True)
class Rule:
    """A conjunction that never happens, as pairs (attribute name, sorted codes).

    A row breaks the rule when every attribute named has one of its codes. `text` is the rule in words, for messages and
    cards; it takes no part in comparisons.
    """

    never: tuple[tuple[str, tuple[int, ...]], ...]
    text: str = field(default="", compare=False)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that the rule names."""
        return tuple(name for name, _ in self.never)

    def broken_by(self, columns: Mapping[str, NDArray[np.integer]], sizes: Mapping[str, int]) -> NDArray[np.bool_]:
        """Which rows break the rule, whose columns are all there."""
        met = [_select(codes, sizes[name])[columns[name]] for name, codes in self.never]
        return np.asarray(np.logical_and.reduce(met))


def _select(codes: Sequence[int], size: int) -> NDArray[np.bool_]:
    selected = np.zeros(size, dtype=bool)
    selected[list(codes)] = True
    return selected


def impossible(rules: Sequence[Rule], attributes: Sequence[str], shape: Sequence[int]) -> NDArray[np.bool_]:
    """The cells of the cross-table of `attributes` that a rule over a subset of them forbids."""
    forbidden = np.zeros(tuple(shape), dtype=bool)
    axis = {name: i for i, name in enumerate(attributes)}
    for rule in rules:
        if not set(rule.attributes) <= set(attributes):
            continue
        cell: NDArray[np.bool_] = np.ones((1,) * len(axis), dtype=bool)
        for name, codes in rule.never:
            spread = [1] * len(axis)
            spread[axis[name]] = -1
            cell = cell & _select(codes, shape[axis[name]]).reshape(spread)
        forbidden |= cell
    return forbidden


def choose_codes(attribute: Attribute, condition: object) -> tuple[int, ...]:
    """The codes that a condition of a schema file selects, possibly none.

    A condition is a label, a list of labels, or a range ``{below, above, from, to, missing}``; `from`
    and `to` include their end, `below` and `above` do not.

    >>> from dipsmith.schema.bins import by_width
    >>> age = Attribute("age", "integer", by_width("integer", 17, 90, 5))
    >>> choose_codes(age, {"below": 30})      # 17-21 and 22-26; 27-31 is only partly inside
    (0, 1)
    >>> choose_codes(age, ["17-21", "87-90"])
    (0, 14)
    """
    if isinstance(condition, Mapping):
        return tuple(sorted(_in_range(attribute, condition)))
    listed = condition if isinstance(condition, (list, tuple)) else [condition]
    position = {label: i for i, label in enumerate(attribute.labels)}
    for label in (label for label in listed if str(label) not in position):
        some = ", ".join([*attribute.labels[:4], *(["…"] if len(position) > 4 else [])])
        raise SchemaError(
            f"rule on column '{attribute.name}': '{label}' is not one of its labels ({some}); rules use labels as "
            "released, after collapsing and binning"
        )
    return tuple(sorted({position[str(label)] for label in listed}))


def _in_range(attribute: Attribute, limits: Mapping[str, object]) -> set[int]:
    domain, rule = attribute.domain, f"rule on column '{attribute.name}'"
    codes, inside = set[int](), np.ones(len(domain.labels), dtype=bool)
    for key, limit in limits.items():
        if key in RANGE:
            inside &= _beyond(domain, key, limit, rule)
        elif key != "missing":
            raise SchemaError(f"{rule}: unknown condition '{key}'; use {', '.join(RANGE)}, missing")
        elif str(limit).lower() in ("true", "yes", "1"):
            if domain.missing_code is None:
                raise SchemaError(f"{rule}: it has no missing level; set missing: true")
            codes.add(domain.missing_code)
    return codes | set(np.flatnonzero(inside).tolist()) if set(limits) & set(RANGE) else codes


def _beyond(domain: Domain, key: str, limit: object, rule: str) -> NDArray[np.bool_]:
    """Which labels lie wholly on one side of a limit."""
    if isinstance(domain, Bins):
        try:
            at = point(domain.scale, limit)
        except SchemaError as error:
            raise SchemaError(f"{rule}, {key}: {error}") from None
        first, high = domain.cuts[:-1], domain.cuts[1:]
        last = high - domain.whole
        # open upper ends: on a dense scale the bin [a, b) lies wholly below b, the closed last bin does not
        closed = domain.whole | (np.arange(len(high)) == len(high) - 1)
        under = np.where(closed, last < at, high <= at)
    else:
        if not domain.ordered:
            raise SchemaError(f"{rule}: ranges need an ordered column; list the labels or set ordered: true")
        if str(limit) not in domain.labels:
            raise SchemaError(f"{rule}, {key}: '{limit}' is not one of its labels")
        at, first = domain.labels.index(str(limit)), np.arange(len(domain.labels), dtype=np.float64)
        last, under = first, first < at
    return np.asarray({"below": under, "above": first > at, "from": first >= at, "to": last <= at}[key])


def code_holding(attribute: Attribute, value: str) -> int:
    """The code of a label, or of the bin that holds a point.

    >>> from dipsmith.schema.bins import by_width
    >>> code_holding(Attribute("age", "integer", by_width("integer", 17, 90, 5)), "30")
    2
    """
    if value in attribute.labels:
        return attribute.labels.index(value)
    domain = attribute.domain
    if isinstance(domain, Bins):
        at = point(domain.scale, value)
        if domain.minimum <= at <= domain.maximum:
            return min(int(np.searchsorted(domain.cuts, at, side="right")) - 1, len(domain.labels) - 1)
    raise SchemaError(f"rule on column '{attribute.name}': '{value}' is not one of its labels or values")


def dependency_rules(first: Attribute, second: Attribute, pairs: Mapping[str, str]) -> list[Rule]:
    """Rules by which each mapped label of the first column leaves the second one value: a functional dependency.

    Labels that the map does not name, and missing values, leave the second column free.
    """
    found = []
    for label, value in pairs.items():
        own, only = code_holding(first, label), code_holding(second, value)
        others = tuple(code for code in range(second.size) if code != only)
        text = f"{first.name} {label} and {second.name} other than {second.labels[only]}"
        found += [Rule(((first.name, (own,)), (second.name, others)), text=text)] if others else []
    return found


def condition_of(attribute: Attribute, codes: Sequence[int]) -> object:
    """The shortest condition of a schema file that selects exactly these codes (inverse of `choose_codes`)."""
    domain = attribute.domain
    levels = [c for c in sorted(codes) if c != domain.missing_code]
    missing = {"missing": True} if len(levels) < len(codes) else {}
    if not levels:
        return missing
    first, final = levels[0], levels[-1]
    if not domain.ordered or len(levels) == 1 or final - first >= len(levels):
        listed = [attribute.labels[c] for c in sorted(codes)]
        return listed[0] if len(listed) == 1 else listed
    if not isinstance(domain, Bins):
        return {"from": domain.labels[first], "to": domain.labels[final]} | missing
    span: dict[str, object] = {}
    if first or final == len(domain.labels) - 1:
        span["from"] = as_plain(domain.scale, domain.edges[first])
    if final < len(domain.labels) - 1:
        span["below"] = as_plain(domain.scale, domain.edges[final + 1])
    return span | missing


def in_words(attribute: Attribute, codes: Sequence[int]) -> str:
    """One condition as people read it.

    >>> from dipsmith.schema.bins import by_width
    >>> in_words(Attribute("age", "integer", by_width("integer", 17, 90, 5)), [0, 1])
    'age below 27'
    """
    condition = condition_of(attribute, codes)
    if isinstance(condition, dict):
        parts = [key if key == "missing" else f"{key} {value}" for key, value in condition.items()]
        return f"{attribute.name} {' '.join(parts)}"
    return f"{attribute.name} {' or '.join(condition) if isinstance(condition, list) else condition}"
