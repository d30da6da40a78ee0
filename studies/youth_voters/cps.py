"""The survey file itself, when somebody has it: `python -m studies.youth_voters --cps FILE`.

The youth subset of the Current Population Survey's voting supplement, 2000–2012 (Holbein and Hillygus 2016, Harvard
Dataverse), is not redistributed here. A file (CSV or Parquet, one line per person, further columns are not read) has each
of the fifteen columns of the paper's Table 1 in one of two forms; letters may be large or small:

- under the study's own name (`dipsmith.examples.voters.NAMES`): yes/no columns hold 1/0, true/false or yes/no;
  `age` 18 to 22, `family_income` 1 to 14, `length_of_residence` 1 to 6, in the order of the paper, or the labels;
- under the Census Bureau's name (`RECODED`), as its record layout codes it. Which state had preregistration in which year is
  no question of the survey: `preregistration_state` is always needed.

Codes changed over the years, so whoever reads a file by the Bureau's names should look at `margins`: the command prints every
share beside the paper's and says which differ by more than `FAR`. People of other ages and with an answer missing are left
out, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.errors import InputError
from dipsmith.examples import voters
from dipsmith.schema import Codes
from dipsmith.sources import source

Floats = NDArray[np.float64]
FAR = 0.03
"""A share that is so far from the paper's is probably coded otherwise."""

_MISSING = np.nan


def _is(*codes: int) -> Callable[[Floats], Floats]:
    """1 where the answer is one of these codes, 0 where it is another, missing where the code is negative."""
    return lambda given: np.where(given < 0, _MISSING, np.isin(given, codes).astype(float))


def _one_of(last: int) -> Callable[[Floats], Floats]:
    """Codes 1 to `last` from 0 on; larger ones, which came later, are the last, negative ones missing."""
    return lambda given: np.where(given < 1, _MISSING, np.minimum(given, last) - 1)


RECODED: Mapping[str, tuple[str, Callable[[Floats], Floats]]] = {
    "voted": ("pes1", _is(1)),
    "age": ("prtage", lambda given: np.where((given >= 18) & (given <= 22), given - 18, _MISSING)),
    "married": ("pemaritl", _is(1, 2)),
    "female": ("pesex", _is(2)),
    "family_income": ("hufaminc", _one_of(14)),
    "college_degree": ("peeduca", lambda given: np.where(given < 0, _MISSING, (given >= 43).astype(float))),
    "white": ("ptdtrace", _is(1)),
    "hispanic": ("pehspnon", _is(1)),
    "registered": ("pes2", _is(1)),
    "metropolitan": ("gtmetsta", _is(1)),
    "length_of_residence": ("pes8", _one_of(6)),
    "business_or_farm": ("hubus", _is(1)),
    "in_person_interview": ("huinttyp", _is(1)),
    "dmv_registration": ("pes7", _is(1)),
}
"""The Bureau's name of each column, and its codes as ours. Those who voted are registered, and are not asked PES2."""

_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def read_cps(path: str | Path) -> Codes:
    """The people of a survey file as codes; an InputError says in one line what a wrong file lacks."""
    if not Path(path).exists():
        raise InputError(f"--cps {path}: there is no such file")
    given = source(str(path))
    found = {name.lower(): name for name in given.columns}
    wanted = {name: _find(name, found) for name in voters.NAMES}
    if lacking := [name for name, column in wanted.items() if column is None]:
        bureau = [f"{name} (or {RECODED[name][0].upper()})" if name in RECODED else name for name in lacking]
        raise InputError(f"--cps {path}: no column {', '.join(bureau)}; see studies/youth_voters/cps.py for the layout")
    names = {name: column for name, column in wanted.items() if column is not None}
    table = pa.Table.from_batches(list(given.batches(list(dict.fromkeys(names.values())))))
    codes = {name: _codes(name, column, table[column], path) for name, column in names.items()}
    _register_voters(codes, names)
    kept = np.logical_and.reduce([np.isfinite(values) for values in codes.values()])
    if not kept.any():
        raise InputError(f"--cps {path}: of {len(kept):,} lines none has an age of 18 to 22 and all fifteen answers")
    whole = {name: values[kept].astype(np.int64) for name, values in codes.items()}
    if ((whole["voted"] == 1) & (whole["registered"] == 0)).any():
        raise InputError(f"--cps {path}: somebody voted without being registered; check how 'registered' is coded")
    return Codes.of(voters.schema("add-remove"), whole)


def margins(codes: Codes) -> list[tuple[str, float, float, bool]]:
    """For every yes/no column the share of the file and of the paper, and whether they differ too much."""
    found = [(name, float(codes[name].mean()), share) for name, share in voters.YES.items()]
    return [(name, mine, paper, abs(mine - paper) > FAR) for name, mine, paper in found]


def _find(name: str, columns: Mapping[str, str]) -> str | None:
    bureau = RECODED[name][0] if name in RECODED else name
    return columns.get(name, columns.get(bureau))


def _codes(name: str, column: str, values: pa.ChunkedArray, path: str | Path) -> Floats:
    """A column as codes, missing as NaN."""
    words = [None if v is None or str(v).strip() == "" else str(v).strip() for v in values.to_pylist()]
    if name in RECODED and column.lower() == RECODED[name][0]:
        return RECODED[name][1](np.array([_MISSING if w is None else _number(w, column, path) for w in words]))
    attribute = voters.schema("add-remove")[name]
    listed = {label.lower(): float(i) for i, label in enumerate(attribute.labels)} if attribute.size > 2 else _WORDS
    first = 18 if name == "age" else 1 if attribute.size > 2 else 0
    made = np.empty(len(words))
    for i, word in enumerate(words):
        code = listed.get(word.lower()) if word is not None else _MISSING
        made[i] = _number(word, column, path) - first if code is None and word is not None else code
    if name == "age":
        return np.where((made >= 0) & (made < attribute.size), made, _MISSING)
    if (outside := np.isfinite(made) & ~np.isin(made, np.arange(attribute.size))).any():
        word = words[int(np.flatnonzero(outside)[0])]
        raise InputError(f"--cps {path}: column '{column}' holds {word}, which is none of its {attribute.size} values")
    return made


def _number(word: str, column: str, path: str | Path) -> float:
    try:
        return float(word)
    except ValueError:
        raise InputError(f"--cps {path}: column '{column}' holds '{word}', which is no code") from None


def _register_voters(codes: dict[str, Floats], names: Mapping[str, str]) -> None:
    """By the Bureau's codes: who voted is registered; who is not asked how they registered did not at a vehicle office."""
    if names["registered"].lower() == RECODED["registered"][0]:
        codes["registered"] = np.where(codes["voted"] == 1, 1.0, codes["registered"])
    if names["dmv_registration"].lower() == RECODED["dmv_registration"][0]:
        codes["dmv_registration"] = np.where(np.isnan(codes["dmv_registration"]), 0.0, codes["dmv_registration"])
