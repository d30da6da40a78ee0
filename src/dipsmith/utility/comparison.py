"""A comparison as users hold it: prints, shows itself in a notebook, saves a page with its numbers. CONFIDENTIAL."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dipsmith.report.content import Page, Table
from dipsmith.report.sections import framed, page
from dipsmith.schema import Schema
from dipsmith.synthesis.writing import whole_folder
from dipsmith.utility.findings import Findings
from dipsmith.utility.metric import Chapter, Metric
from dipsmith.utility.panels import Points
from dipsmith.utility.regression import Agreement, RegressionComparison

NOTICE = (
    "CONFIDENTIAL\n\nEverything in this folder was computed from authentic rows without any protection.\n"
    "None of it may be released: publishing how well a release fits tells about single people.\n"
)


@dataclass(frozen=True, eq=False)
class Comparison:
    """What was found out about one or more releases.

    Attributes
    ----------
    dataset, schema
        What was compared.
    findings
        One for each release.
    regressions
        One for each analysis.
    left_out
        Authentic rows that could not be compared, because a value has no code.
    looks
        How many looks the ledger has logged for the dataset, this one included.
    chapters, metrics
        What the page is made of: chapters in their order, and the metrics that have none.
    """

    dataset: str
    schema: Schema
    findings: tuple[Findings, ...]
    regressions: tuple[RegressionComparison, ...]
    left_out: int
    looks: int
    seed: int
    chapters: tuple[Chapter, ...]
    metrics: tuple[Metric, ...]

    @cached_property
    def page(self) -> Page:
        """The whole comparison as content."""
        from dipsmith.utility.summary import comparison_page

        return comparison_page(self)

    def save(self, folder: str | Path) -> Path:
        """Write comparison.html, comparison.json and the numbers of every figure into a new folder.

        The page is one self-contained file that opens from disk; the folder can be read by its owner only.
        """
        target = Path(folder)
        with whole_folder(target, 0o700) as work:
            (work / "CONFIDENTIAL.txt").write_text(NOTICE, "utf-8")
            (work / "comparison.html").write_text(page(self.page), "utf-8")
            (work / "comparison.json").write_text(self.to_json(), "utf-8")
            for figure in self.page.figures():
                if figure.file and figure.numbers is not None:
                    stem = work / figure.file
                    stem.parent.mkdir(exist_ok=True)
                    stem.with_suffix(".csv").write_text(figure.numbers.to_csv(), "utf-8")
                    stem.with_suffix(".json").write_text(_table_json(figure.title, figure.numbers), "utf-8")
        return target

    def to_dict(self) -> dict[str, Any]:
        """Every score as plain values (point by point numbers are in the figures' files)."""
        return {
            "confidential": True,
            "dataset": self.dataset,
            "looks": self.looks,
            "left_out": self.left_out,
            "seed": self.seed,
            "releases": [_release(f) for f in self.findings],
            "analyses": [
                {**_plain(r), "agreements": [_agreement(a) for a in r.agreements]} for r in self.regressions
            ],
        }

    def to_json(self) -> str:
        """comparison.json."""
        return json.dumps(_finite(self.to_dict()), ensure_ascii=False, indent=1) + "\n"

    def __str__(self) -> str:
        from dipsmith.inference.combine import as_text
        from dipsmith.report.sections import number
        from dipsmith.utility.summary import glance

        table = glance(self)
        rows = [tuple(number(c) for c in row) for row in table.rows]
        text = as_text(Table.of("", table.columns, rows))
        return f"CONFIDENTIAL comparison: reads authentic rows, not for release\n\n{text}"

    def _repr_html_(self) -> str:
        return framed(page(self.page))


def _release(found: Findings) -> dict[str, Any]:
    plain = _plain(found)
    results = plain.pop("results")
    return {**plain, **results}


def _agreement(found: Agreement) -> dict[str, Any]:
    scores = ("overlap", "covered", "same_conclusion", "width_ratio")
    return {**_plain(found), **{name: getattr(found, name) for name in scores}}


def _table_json(title: str, table: Table) -> str:
    content = {"confidential": True, "title": title, "columns": table.columns, "rows": table.rows}
    return json.dumps(_finite(content), ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    """Frozen values as JSON-able ones; points only by their summary."""
    if isinstance(value, Points):
        fit = {"correlation": value.correlation, "slope": value.slope, "rmse": value.rmse}
        return {"points": len(value)} | fit
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value


def _finite(value: Any) -> Any:
    """The same with None for numbers that JSON cannot hold."""
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value
