"""Choices: what the Plan page decides, and the same as a command, as YAML and as a script.

Every export says exactly what the studio would do, so that a decision made by looking can be repeated, reviewed and
kept under version control.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import yaml

from dipsmith.errors import UsageError
from dipsmith.methods.catalogue import METHODS, find_method, make_method, settings_for
from dipsmith.methods.method import Method
from dipsmith.privacy.budget import ZCDP, Budget, PureDP
from dipsmith.report.commands import command
from dipsmith.schema import Schema
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.schema.markup import render
from dipsmith.studio.public_files import Find, PublicFiles
from dipsmith.studio.script import script

Currency = Literal["epsilon", "approx", "rho"]
ALLOWED = {"currency": ("epsilon", "approx", "rho"), "each": ("split", "draw"), "format": ("parquet", "csv")}
MOST_SETS = 50
MOST_ANALYSES, LONGEST = 20, 1000
"""Planned analyses, and characters of one."""
WIDEST = 2**31 - 1
"""Characters of a line that is never broken."""


def methods_for(neighbours: str, *, households: bool = False) -> list[str]:
    """The methods that have a proof under a relation, and make households with their members where there are some."""
    proven = [name for name, made in METHODS.items() if neighbours in vars(made)["relations"]]
    return [name for name in proven if not households or getattr(METHODS[name], "makes_members", False)]


def supported_for(schema: Schema) -> list[str]:
    """The methods that can make the tables of a schema."""
    return methods_for(schema.neighbours, households=schema.members is not None)


@dataclass(frozen=True)
class Choices:
    """A method, its settings where they differ from its defaults, a budget, how many sets, and planned analyses.

    `currency` is pure ε; ε with δ (run in ρ); or ρ. Amounts are kept as they were typed: exact decimals. `rows` is the
    number of rows, where it is publicly known. `analyses` are formulas as they were typed,
    beside those of the schema; `files` the public files beside the confidential one.
    """

    method: str = ""
    currency: Currency = "epsilon"
    amount: str = "1"
    delta: str = "1e-9"
    sets: int = 1
    each: Literal["split", "draw"] | None = None
    rows: int | None = None
    format: Literal["parquet", "csv"] = "parquet"
    settings: Mapping[str, Any] = field(default_factory=dict)
    analyses: tuple[str, ...] = ()
    files: PublicFiles = field(default_factory=PublicFiles)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Choices:
        """Choices from a page's JSON; everything that is not understood is refused."""
        known = {f.name for f in fields(cls)}
        chosen = {k: v for k, v in given.items() if k in known and v is not None}
        for name in ("method", "amount", "delta"):
            if not isinstance(chosen.get(name, ""), str):
                raise UsageError(f"{name} must be text")
        for name, allowed in ALLOWED.items():
            if name in chosen and chosen[name] not in allowed:
                raise UsageError(f"{name} is '{chosen[name]}', expected one of: {', '.join(allowed)}")
        for name, least, most in (("sets", 1, MOST_SETS), ("rows", 0, 10**12)):
            value = chosen.get(name, least)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise UsageError(f"{name} must be a whole number from {least} to {most:,}")
        if not isinstance(chosen.get("settings", {}), dict):
            raise UsageError("settings must be names with values")
        chosen["analyses"] = _lines(chosen.get("analyses", ()))
        chosen["files"] = PublicFiles.of(chosen.get("files", {}))
        if chosen.get("sets", 1) == 1:
            chosen.pop("each", None)
        return cls(**chosen)

    @property
    def budget(self) -> Budget:
        """What may be spent."""
        if self.currency == "approx":
            return ZCDP.from_approx(self.amount, self.delta)
        return ZCDP(self.amount) if self.currency == "rho" else PureDP(self.amount)

    def method_for(self, schema: Schema, find: Find | None = None) -> Method:
        """The method with its settings; targets default to the private columns. Public files are looked for by `find`."""
        known = {f.name for f in fields(find_method(self.method))}  # type: ignore[arg-type]
        unknown = [name for name in self.settings if name not in known]
        if unknown:
            raise UsageError(f"method {self.method} has no setting '{unknown[0]}'")
        made = make_method(self.method, self.settings, schema)
        return made if find is None else self.files.for_method(made, schema, self.budget, find)

    def all_analyses(self, schema: Schema) -> tuple[PlannedAnalysis, ...]:
        """All planned analyses, those of the schema first."""
        return (*schema.analyses, *map(PlannedAnalysis.of, self.analyses))

    def rows_for(self, schema: Schema) -> int | None:
        """The number of rows that `synthesize` is told: only under add-remove, where it is stated."""
        return self.rows if schema.neighbours == "add-remove" else None

    def options(self) -> list[str]:
        """The options that `plan` and `synthesize` share, word by word."""
        currency = "--rho" if self.currency == "rho" else "--epsilon"
        words = ["--method", self.method or "METHOD", currency, self.amount]
        words += ["--delta", self.delta] if self.currency == "approx" else []
        words += ["--sets", str(self.sets), "--each", str(self.each)] if self.sets > 1 else []
        for name, value in self.settings.items():
            words += ["--set", f"{name}={_value(value)}"]
        for line in self.analyses:
            words += ["--analysis", line]
        return words

    def plan_command(self, schema_file: str, data: str, neighbours: str) -> str:
        """`dipsmith plan …`."""
        rows = ["--rows", str(self.rows)] if self.rows is not None and neighbours != "label" else []
        read = [Path(data)] if neighbours == "label" and data else []
        return command("plan", *read, "--schema", Path(schema_file), *self.options(), *rows)

    def run_command(
        self, schema_file: str, data: str, neighbours: str, ledger: str, out: str, members: str = ""
    ) -> str:
        """`dipsmith synthesize …`."""
        more = ["--known-rows", str(self.rows)] if self.rows is not None and neighbours == "add-remove" else []
        more += ["--format", "csv"] if self.format == "csv" else []
        more += self.files.words()
        files: list[str | Path] = ["--ledger", Path(ledger), "--out", Path(out)]
        files = ["--members", Path(members), *files] if members else files
        read = Path(data or "FILE")
        return command("synthesize", read, "--schema", Path(schema_file), *self.options(), *more, *files)

    def to_yaml(self, data: str, schema_file: str, comparison: Mapping[str, Any] | None = None) -> str:
        """The choices as a file to keep, with those of the last comparison."""
        chosen: dict[str, object] = {"data": data, "schema": schema_file, "method": self.method}
        chosen |= {self.currency if self.currency == "rho" else "epsilon": self.amount}
        if self.currency == "approx":
            chosen["delta"] = self.delta
        chosen |= {"sets": self.sets, "each": self.each, "rows": self.rows, "format": self.format}
        chosen |= {"settings": dict(self.settings), "analyses": list(self.analyses), "files": self.files.to_dict()}
        if comparison is not None:
            chosen["compare"] = {k: comparison[k] for k in ("releases", "analyses", "classifiers")}
        return render({k: v for k, v in chosen.items() if v not in (None, {}, [])})

    def script(
        self,
        schema: Schema,
        data: str,
        ledger: str,
        out: str,
        comparison: Mapping[str, Any] | None = None,
        members: str = "",
    ) -> str:
        """A Python script that does the same, from the folder of the workspace; with the last comparison's analyses."""
        amounts = {
            "epsilon": ("PureDP", [self.amount]),
            "rho": ("ZCDP", [self.amount]),
            "approx": ("ZCDP.from_approx", [self.amount, self.delta]),
        }
        more: dict[str, Any] = {"sets": self.sets, "each": self.each} if self.sets > 1 else {}
        if (rows := self.rows_for(schema)) is not None:
            more["known_rows"] = rows
        if self.analyses:
            more["analyses"] = list(self.analyses)
        if members:
            more["members"] = members
        made = type(self.method_for(schema)).__name__
        settings = settings_for(self.method, self.settings, schema)
        saved = {"folder": out} | ({"format": "csv"} if self.format == "csv" else {})
        files = self.files, self.currency
        return script(schema, data, (made, settings), amounts[self.currency], ledger, more, saved, comparison, files)


def _lines(given: object) -> tuple[str, ...]:
    """Formulas, one a line."""
    if not isinstance(given, list | tuple) or not all(isinstance(line, str) for line in given):
        raise UsageError("analyses must be a list of formulas")
    found = tuple(line.strip() for line in given if line.strip())
    if len(found) > MOST_ANALYSES:
        raise UsageError(f"{len(found)} planned analyses, at most {MOST_ANALYSES} are made at once")
    if any(len(line) > LONGEST or not line.isprintable() for line in found):
        raise UsageError(f"a planned analysis is one line of at most {LONGEST} printable characters")
    return found


def _value(value: object) -> str:
    """A setting as `--set` reads it: YAML on one line."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # the other one writes U+0085 so that it is lost
    text = yaml.dump(value, Dumper=dumper, default_flow_style=True, width=WIDEST, allow_unicode=True)
    return str(text).removesuffix("...\n").strip()
