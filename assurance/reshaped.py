"""One private table in many forms and orders: its release must be the same bytes each time.

The noise is frozen, so that the answers are the same as long as the counts are; whatever else differs between two
releases came from the form or the order of the private table, and nobody paid for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from assurance.bytes import CANARY, differences, frozen_secrets, released
from assurance.cases import Case
from assurance.forms import FORMS, form_schema, form_table, make_forms, orders
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.ledger import Ledger
from dipsmith.privacy.randomness import generator
from dipsmith.report import figures as drawing
from dipsmith.schema import Schema
from dipsmith.synthesis.order import Each
from dipsmith.synthesis.synthesize import synthesize

Format = Literal["parquet", "csv"]


@dataclass(frozen=True)
class Run:
    """A method with everything about a run that the steward chooses.

    Attributes
    ----------
    formats
        In which the release is saved, one after the other.
    each
        How several sets are made.
    seed
        Of the noise, and of drawing rows, which is free and must not tell more.
    """

    schema: Schema
    method: Any
    formats: tuple[Format, ...] = ("parquet",)
    sets: int = 1
    each: Each = "draw"
    seed: int = 1
    figures: bool = False

    def release(self, data: Any, folder: Path, name: str) -> dict[str, bytes]:
        """The bytes of a release made from some data, with a ledger and a request id of its own.

        The first format is saved in the folder `name`, others beside it.
        """
        ledger = Ledger(folder / f"{name}.db")
        ledger.grant(self.schema.name, PureDP(2), by="auditor")
        with frozen_secrets(), without_figures(not self.figures):
            made = synthesize(
                data,
                self.schema,
                self.method,
                budget=PureDP(2),
                ledger=ledger,
                request=f"request {name}",
                sets=self.sets,
                each=self.each if self.sets > 1 else None,
                seed=self.seed,
                testing=True,
                noise_seed=self.seed,
            )
            first, *others = self.formats
            found = released(made.save(folder / name, format=first))
            for kind in others:
                more = released(made.save(folder / f"{name}-{kind}", format=kind))
                found |= {f"{kind}: {file}": data for file, data in more.items()}
            return found


def check_forms(
    case: Case, seed: int, folder: Path, rows: int | None = None, forms: tuple[str, ...] = tuple(FORMS)
) -> tuple[list[str], int]:
    """Release one table in its orders and forms, in both formats; say in what the releases differ, and how many were compared.

    Parameters
    ----------
    seed
        Of the table, its orders and where its forms are cut.
    folder
        An empty folder.
    """
    random = generator(seed)
    table = form_table(random, int(random.integers(3, 40)) if rows is None else rows)
    limit = None if case.plain else (None, 1, 2)[seed % 3]
    run = Run(
        form_schema(case.relation, limit),
        case.method,
        ("parquet", "csv"),
        sets=1 + seed % 2,
        each="split" if seed // 2 % 2 else "draw",
        seed=seed,
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
    drawable = drawing.available
    if wanted:
        drawing.available = lambda: False
    try:
        yield
    finally:
        drawing.available = drawable
