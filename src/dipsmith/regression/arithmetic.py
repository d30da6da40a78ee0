"""The numbers that an expression stands for: arithmetic on columns, and nothing else.

An expression is a tree (`dipsmith.schema.formula.tree`), walked node by node: a column is looked up, a sign or a
function is one of the few in a table here. There is no way from a name to anything but a column of the data.

Everything is computed in double precision; a comparison is 1 where it holds and 0 where not.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, NoReturn

import numpy as np

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.errors import UsageError
from dipsmith.schema.formula.tree import (
    COMPARISONS,
    MATHEMATICS,
    Call,
    Column,
    Node,
    Number,
    Operation,
    SignedTerm,
    Text,
    spell,
)
from dipsmith.schema.formula.words import abridge

FUNCTIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "I": lambda x: x,
    **{name: getattr(np, name) for name in MATHEMATICS},
}

STEPS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
    "**": operator.pow,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, eq=False)
class Category:
    """A column of labels: the place of each among the levels, −1 where it is missing."""

    codes: Ints
    levels: tuple[str, ...]


Columns = Mapping[str, Floats | Category]
Value = Floats | float | Category | str


def evaluate(node: Node, columns: Columns, rows: int) -> Floats:
    """The number of an expression in every row; not finite where it has none.

    >>> from dipsmith.schema.formula.parser import parse
    >>> evaluate(parse("(a + 1)^2 ~ 1").response, {"a": np.array([0.0, 2.0])}, 2).tolist()
    [1.0, 9.0]
    """
    # Logarithms of 0 are rows to leave out, not warnings.
    with np.errstate(all="ignore"):
        found = _number(node, columns)
    return np.ascontiguousarray(np.broadcast_to(np.asarray(found, dtype=np.float64), (rows,)))


def _value(node: Node, columns: Columns) -> Value:
    match node:
        case Number(value) | Text(value):
            return value
        case Column(name):
            return columns[name]
        case SignedTerm(sign, part):
            return -_number(part, columns) if sign == "-" else _number(part, columns)
        case Call(function, (argument,)) if function in FUNCTIONS:
            return _plain(FUNCTIONS[function](_number(argument, columns)))
        case Operation(("&", *_), parts):
            return _plain(reduce(np.logical_and, [_truth(part, columns) for part in parts]))
        case Operation(("==" | "!=" as sign,), (left, right)) if _is_label(left, columns) or _is_label(right, columns):
            return _plain(_same_label(left, right, columns) == (sign == "=="))
        case Operation(signs, parts):
            found = _number(parts[0], columns)
            for sign, part in zip(signs, parts[1:], strict=True):
                # Two plain numbers are computed as numpy does: a division by 0 is infinite, not an error.
                found = np.float64(found) if isinstance(found, float) else found
                found = _plain(STEPS[sign](found, _number(part, columns)))
            return found
    return _refuse(node)


def _number(node: Node, columns: Columns) -> Floats | float:
    found = _value(node, columns)
    return _refuse(node) if isinstance(found, Category | str) else found


def _plain(found: Any) -> Floats | float:
    """Numbers from what numpy returned; a plain one stays plain, so that a square is computed as a square."""
    return float(found) if np.ndim(found) == 0 else np.asarray(found, dtype=np.float64)


def _truth(node: Node, columns: Columns) -> Bools:
    if not (isinstance(node, Operation) and node.signs[0] in (*COMPARISONS, "&")):
        _refuse(node)
    return np.asarray(np.not_equal(_number(node, columns), 0))


def _is_label(node: Node, columns: Columns) -> bool:
    return isinstance(node, Column | Text) and isinstance(_value(node, columns), Category | str)


def _same_label(left: Node, right: Node, columns: Columns) -> Bools:
    """Where two labels are the same: of two columns, or of a column and a text."""
    for node in (left, right):
        if not _is_label(node, columns):
            _refuse(node)
    one, other = sorted(
        (_value(left, columns), _value(right, columns)), key=lambda found: not isinstance(found, Category)
    )
    if not isinstance(one, Category):
        _refuse(left)
    place = {level: i for i, level in enumerate(one.levels)}
    if not isinstance(other, Category):
        if str(other) not in place:
            name = next(node.name for node in (left, right) if isinstance(node, Column))
            raise UsageError(
                f"column '{abridge(name)}' has no level '{abridge(str(other))}' to be compared with (capitals count); "
                "codebook.csv lists its levels"
            )
        return np.asarray(one.codes == place[str(other)])
    to_place = [*(place.get(level, len(place)) for level in other.levels), len(place)]
    return np.asarray(one.codes == np.array(to_place, dtype=np.int64)[other.codes])


def _refuse(node: Node) -> NoReturn:
    raise UsageError(
        f"'{abridge(spell(node))}' cannot be evaluated here; functions and arithmetic are for columns of numbers, "
        "== and != also compare a category with a text, & joins comparisons"
    )
