"""A study from its file to its report, and the report as Markdown for documentation under version control."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

from dipsmith.errors import BudgetError, InputError
from dipsmith.experiments import experiment as pages
from dipsmith.experiments import runner
from dipsmith.experiments.report import report
from dipsmith.experiments.results import Results
from dipsmith.experiments.runner import Progress
from dipsmith.experiments.study import StudyEntry, parse, text_of
from dipsmith.experiments.trial import Laboratory, budget
from dipsmith.privacy.ledger import Ledger
from dipsmith.report.canvas import standalone
from dipsmith.report.content import Block, Code, Facts, Heading, Link, Page, Table
from dipsmith.report.sections import number
from dipsmith.report.sections import page as html
from dipsmith.schema import Schema, markup
from dipsmith.synthesis.writing import replaced_file
from dipsmith.utility.metric import Metric

REPORT = "report.html"


@dataclass(frozen=True, eq=False)
class Experiment:
    """A study that was read and checked, and where its results go."""

    text: str
    base: Path
    out: Path
    laboratory: Laboratory

    @classmethod
    def read(
        cls,
        path: Path,
        out: Path | None = None,
        *,
        data: str | None = None,
        repeats: int | None = None,
        rows: int | None = None,
        extra: Mapping[str, Metric] | None = None,
    ) -> Experiment:
        """Read a study file; `data`, `repeats` and `rows` (of simulated tables) stand instead of what it says."""
        text = text_of(path)
        study = parse(text, path.name)
        changed = _apply_options(
            markup.parse(text, typed=True), study, path.name, data=data, repeats=repeats, rows=rows
        )
        if changed is not None:
            text = markup.render(changed)
            study = parse(text, path.name)
        base = path.absolute().parent
        folder = out if out is not None else Path(f"{study.name}-results")
        return cls(text, base, folder, Laboratory(study, base, folder, extra))

    def require_budget(self) -> None:
        """Refuse a study on private rows that its grant cannot pay for, before the first charge."""
        cost, data = self.laboratory.cost, self.laboratory.study.data
        if cost is None or data.ledger is None or data.schema_ is None:
            return
        name = Schema.read(self.base / data.schema_).name
        statement = Ledger(self.base / data.ledger).show(name)
        done = {o.id for o in runner.outcomes(self.out)}
        # A run that was killed is charged already, and will not be charged again.
        paid = {run.id for run in statement.runs if run.state != "cancelled"}
        left_out = {r.id for r in self.laboratory.runs if self.laboratory.request_of(r) in paid}
        units = sum(budget(r.setting).units for r in self.laboratory.runs if r.id not in done | left_out)
        if statement.currency == cost.currency and units > statement.remaining_units:
            left = type(cost).of_units(statement.remaining_units) if statement.remaining_units else "nothing"
            raise BudgetError(
                f"the study's {len(self.laboratory.runs) - len(done)} runs cost {type(cost).of_units(units)} and '{name}' has {left} left; "
                "run it on a public stand-in or a simulated example, or ask for a larger grant"
            )

    def run(self, jobs: int | None = None, progress: Progress | None = None) -> Results:
        """Run it, or the rest of it, and write the table and the report.

        Privacy
        -------
        On private rows every run is charged before a value is read, and every comparison is a logged look.
        """
        self.require_budget()
        study = self.laboratory.study
        found = runner.run(self.laboratory, self.text, jobs, progress)
        results = Results.of(study, self.laboratory.runs, found)
        if not results.table.num_rows:
            raise InputError(f"no run of '{study.name}' gave a number: {results.failed[0]}")
        results.save(self.out, self.text)
        made = self.page(results)
        for figure in made.figures():
            if figure.numbers is not None:
                with replaced_file(self.out / f"{figure.file}.csv") as work:
                    work.write_text(figure.numbers.to_csv(), "utf-8")
        with replaced_file(self.out / REPORT) as work:
            work.write_text(html(made), "utf-8")
        return results

    def page(self, results: Results) -> Page:
        """The report's content."""
        return report(results, self.laboratory)

    def require_page(self, path: Path) -> None:
        """Refuse a page that could not be written, before the first run and the first charge."""
        if self.laboratory.study.data.private:
            raise InputError("the report of a study on private rows is confidential and has no page; see report.html")
        pages.require_markdown(path)

    def write_page(self, results: Results, path: Path, command: str) -> None:
        """The report as Markdown with SVG figures, below the text that the study names."""
        self.require_page(path)
        study = self.laboratory.study
        text = None if study.text is None else (self.base / study.text).read_text("utf-8")
        pages.write(self.page(results), path, title=study.title or study.name, command=command, text=text)


def _apply_options(
    entries: dict[str, Any], study: StudyEntry, name: str, *, data: str | None, repeats: int | None, rows: int | None
) -> dict[str, Any] | None:
    """The study's keys with those that were given on the command line; None where nothing was given."""
    if data is not None and study.data.file is None:
        raise InputError(f"{name}: the study simulates its rows; leave --data out")
    if rows is not None and study.data.file is not None:
        raise InputError(f"{name}: the study reads a file; --rows is the size of simulated tables, leave it out")
    if rows is not None and any(
        "rows" in part for m in study.methods for part in (m.set, m.vary, study.set, study.vary)
    ):
        raise InputError(f"{name}: the study sets 'rows' by itself; change it there, or leave --rows out")
    given = {"file": None if data is None else str(Path(data).absolute()), "rows": rows}
    entries["data"] |= {key: value for key, value in given.items() if value is not None}
    entries |= {} if repeats is None else {"repeats": repeats}
    return None if (data, repeats, rows) == (None, None, None) else entries


def write(page: Page, path: Path, *, title: str, command: str, text: str | None) -> None:
    """Write (or overwrite) PATH and, in the folder of the same name, its figures and their numbers.

    The page names the command that makes it; `text` is what a person wrote about the study, put before the tables.
    """
    require_markdown(path)
    folder = path.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for figure in page.figures():
        if figure.svg:
            (folder / f"{figure.file}.svg").write_text(standalone(figure.svg), "utf-8")
        if figure.numbers is not None:
            (folder / f"{figure.file}.csv").write_text(figure.numbers.to_csv(), "utf-8")
    parts = [f"# {escape(title)}", *map(_paragraph, page.lead), _wrap(f"Made by {_code(command)}.")]
    parts += [text.strip()] if text else []
    for section in page.sections:
        parts += [f"## {escape(section.heading)}", *(_block(b, folder.name) for b in section.blocks)]
    path.write_text("\n\n".join(parts) + "\n", "utf-8")


def require_markdown(path: Path) -> None:
    """Refuse a page of another kind."""
    if path.suffix != ".md":
        raise InputError(f"a page is written as Markdown, got '{path.name}'; name it …md")


def _block(block: Block, folder: str) -> str:
    if isinstance(block, str):
        return _paragraph(block)
    if isinstance(block, Heading):
        return f"### {escape(block.text)}"
    if isinstance(block, Link):
        return _paragraph(f"[{escape(block.file)}]({block.file}): {escape(block.text)}")
    if isinstance(block, Code):
        fence = _fence(block.text, 3)
        return f"{fence}\n{block.text}\n{fence}"
    if isinstance(block, Facts):
        return "\n".join(["| | |", "|---|---|", *(f"| {escape(n)} | {escape(v)} |" for n, v in block.rows)])
    if isinstance(block, Table):
        texts = [any(isinstance(r[i], str) for r in block.rows) for i in range(len(block.columns))]
        lines = [block.columns, *([number(c) for c in row] for row in block.rows)]
        head, *rows = ("| " + " | ".join(map(escape, line)) + " |" for line in lines)
        rule = "|" + "|".join("---" if text else "---:" for text in texts) + "|"
        note = f"\n\n{_paragraph(block.note)}" if block.note else ""
        return f"{_paragraph(block.caption)}\n\n" + "\n".join([head, rule, *rows]) + note
    drawing = f"![{escape(block.alternative)}]({folder}/{block.file}.svg)\n\n" if block.svg else ""
    numbers = f" [Numbers]({folder}/{block.file}.csv)." if block.numbers is not None else ""
    return f"{_wrap(f'**{escape(block.title)}**')}\n\n{drawing}" + _wrap(escape(block.caption) + numbers)


def _paragraph(text: str) -> str:
    return _wrap(escape(text))


def _wrap(text: str) -> str:
    return fill(text, 119, break_long_words=False, break_on_hyphens=False)


def escape(text: str) -> str:
    r"""One line of text that Markdown shows as it is: it ends no cell, and begins no markup, link or HTML.

    >>> print(escape("a|b [c](d) <i> `x` *y*"))
    a\|b \[c\](d) \<i> \`x\` \*y\*
    """
    return re.sub(r"([\\`*|\[\]<])", r"\\\1", " ".join(str(text).split()))


def _code(text: str) -> str:
    """Text as code within a sentence, whatever backticks it has."""
    fence = _fence(text, 1)
    return f"`{text}`" if fence == "`" else f"{fence} {text} {fence}"


def _fence(text: str, least: int) -> str:
    """More backticks than the text has in a row."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)
