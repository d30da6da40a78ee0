"""The bytes of a release: what a stranger who holds the folder can compare, to the last bit.

A release is a function of the schema, the budget and the noisy answers. With the answers frozen, the bytes of every
file must therefore stay the same when the private table is put in another order, written in another form
(`check_forms`), or replaced by a neighbour (`assurance.rerun`). `read_release` reads a folder for such a comparison.
The only values that may differ between two runs are `EXCEPTED`, each by its name on the card; wherever else one of them
is repeated, it is masked as that very value, and so are the digests of the files that repeat it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any, Final, Literal
from unittest.mock import patch

from assurance.cases import Case
from assurance.forms import CANARY, FORMS, form_schema, form_table, make_forms, orders
from dipsmith.privacy.budget import ZCDP, Budget, PureDP
from dipsmith.privacy.ledger import Ledger
from dipsmith.privacy.randomness import generator
from dipsmith.report import figures as drawing
from dipsmith.report.moments import moment_in_words
from dipsmith.schema import Schema
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.synthesis.order import Each
from dipsmith.synthesis.synthesize import synthesize

Format = Literal["parquet", "csv", "dta", "sav"]

EXCEPTED: Final = {
    "created": "when the budget was reserved",
    "request": "the id of the run, given or drawn before anything is read",
    "reservation": "the same id, as the ledger knows it",
    "ledger_head": "a digest over the ledger's times and ids",
}
"""Fields of card.json that may differ although the answers are the same, and why each is no function of a row."""

BUDGET: Final = PureDP(2)

REPEATED: Final = (
    "report.html",
    *(f"metadata/{name}" for name in ("croissant.json", "csvw.json", "datacite.json", "ddi.xml", "deployment.yaml")),
    "ro-crate-metadata.json",
    "card.html",
)
"""Files that repeat excepted values, in the order in which their digests enter one another."""


def read_release(folder: Path) -> dict[str, bytes]:
    """Every file of a release by its name from there, the excepted values masked.

    A card that is not in its one canonical form is refused: what a parser skips could tell something too.
    """
    found = {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
    card: dict[str, Any] = json.loads(found["card.json"])
    if _canonical(card) != found["card.json"]:
        raise ValueError("card.json is not in canonical form")
    values = {str(card[name]): name for name in EXCEPTED if card.get(name) is not None}
    values[moment_in_words(str(card["created"]))] = "created"
    values[str(card["created"])[:10]] = "created"
    values[f'"publicationYear": "{str(card["created"])[:4]}"'] = "year of created"
    for name in (n for n in REPEATED if n in found):
        was = sha256(found[name]).hexdigest()
        found[name] = _masked(found[name], values)
        values[was] = f"digest of {name}"
    masked = {k: EXCEPTED.get(k, v) if v is not None else None for k, v in card.items()}
    masked["files"] = {name: values.get(digest, digest) for name, digest in card["files"].items()}
    found["card.json"] = _canonical(masked)
    return found


def differences(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> list[str]:
    """In what two releases differ, file by file; empty when they are the same.

    >>> differences({"a": b"xy", "b": b""}, {"a": b"xz"})
    ['a: differs from byte 1 on (2 and 2 bytes)', 'b: in one release only']
    """
    found = []
    for name in sorted({*one, *other}):
        if name not in one or name not in other:
            found.append(f"{name}: in one release only")
        elif one[name] != other[name]:
            a, b = one[name], other[name]
            at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            found.append(f"{name}: differs from byte {at} on ({len(a)} and {len(b)} bytes)")
    return found


@dataclass(frozen=True)
class Run:
    """A method with everything about a run that the steward chooses; `seed` is that of the noise and of drawing rows."""

    schema: Schema
    method: Any
    formats: tuple[Format, ...] = ("parquet",)
    sets: int = 1
    each: Each = "draw"
    seed: int = 1
    figures: bool = False
    analyses: tuple[PlannedAnalysis | str, ...] = ()
    budget: Budget = BUDGET

    def release(self, data: Any, folder: Path, name: str) -> dict[str, bytes]:
        """The bytes of a release made from some data, with a ledger and a request id of its own.

        The first format is saved in the folder `name`, others beside it.
        """
        ledger = Ledger(folder / f"{name}.db")
        ledger.grant(self.schema.name, self.budget, by="auditor")
        with without_figures(not self.figures):
            made = synthesize(
                data,
                self.schema,
                self.method,
                budget=self.budget,
                ledger=ledger,
                request=f"request {name}",
                sets=self.sets,
                each=self.each if self.sets > 1 else None,
                analyses=self.analyses,
                seed=self.seed,
                testing=True,
                noise_seed=self.seed,
            )
            first, *others = self.formats
            found = read_release(made.save(folder / name, format=first))
            for kind in others:
                more = read_release(made.save(folder / f"{name}-{kind}", format=kind))
                found |= {f"{kind}: {file}": data for file, data in more.items()}
            return found


def check_forms(
    case: Case,
    seed: int,
    folder: Path,
    rows: int | None = None,
    forms: tuple[str, ...] = tuple(FORMS),
    formats: tuple[Format, ...] = ("parquet", "csv"),
) -> tuple[list[str], int]:
    """Release one table in its orders and forms: in what the releases differ, and how many were compared.

    The seed decides on the table, its orders and where its forms are cut; the folder must be empty.
    """
    random = generator(seed)
    table = form_table(random, int(random.integers(3, 40)) if rows is None else rows)
    limit = None if case.plain else (None, 1, 2)[seed % 3]
    run = Run(
        form_schema(case.relation, limit),
        case.method,
        formats,
        sets=1 + seed % 2,
        each="split" if seed // 2 % 2 else "draw",
        seed=seed,
        analyses=case.analyses,
        budget=ZCDP("0.3") if case.analyses and seed % 2 else PureDP(2),
    )
    first = run.release(table, folder, "first")
    tried: dict[str, Any] = dict(orders(table, random))
    for name, form in make_forms(tried["drawn"], folder / "forms", seed, forms).items():
        tried[f"{name}, drawn"] = form
    findings = [f"{name} tells of the form" for name, data in first.items() if CANARY.encode() in data]
    for i, (name, data) in enumerate(tried.items()):
        try:
            other = run.release(data, folder, f"other-{i}")
        except Exception as error:  # noqa: BLE001 - whatever it is, the first form did not end with it
            findings.append(f"{name}: ends with {type(error).__name__}")
            continue
        findings += [f"{name}: {file}" for file in differences(first, other)]
        findings += [f"{name}: {file}: holds the canary" for file, b in other.items() if CANARY.encode() in b]
    return findings, len(tried)


@contextmanager
def without_figures(wanted: bool = True) -> Iterator[None]:
    """Reports as they are where matplotlib is not installed: figures take most of the time of a run."""
    with patch.object(drawing, "available", lambda: False) if wanted else nullcontext():
        yield


def _canonical(card: Mapping[str, Any]) -> bytes:
    return (json.dumps(card, ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode()


def _masked(data: bytes, values: Mapping[str, str]) -> bytes:
    for value, name in values.items():
        for spelled in (value, escape(value)):
            data = data.replace(spelled.encode(), f"‹{name}›".encode())
    return data
