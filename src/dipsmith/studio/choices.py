"""Choices: what the Plan page decides, and the same as a command, as YAML and as a script.

Every export says exactly what the studio would do, so that a decision made by looking can be repeated, reviewed and
kept under version control.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from dipsmith.errors import UsageError
from dipsmith.methods.catalogue import METHODS
from dipsmith.methods.method import Method
from dipsmith.privacy.budget import ZCDP, Budget, PureDP
from dipsmith.schema import Schema
from dipsmith.schema.markup import render

Currency = Literal["epsilon", "approx", "rho"]
MOST_SETS = 50


def supported(neighbours: str) -> list[str]:
    """The methods that have a proof under a relation."""
    return [name for name, made in METHODS.items() if neighbours in vars(made)["relations"]]


@dataclass(frozen=True)
class Choices:
    """A method, its settings, a budget and how many sets.

    Attributes
    ----------
    currency, amount, delta
        Pure ε; ε with δ (run in ρ); or ρ. Amounts are kept as they were typed: exact decimals.
    rows
        The number of rows, where it is public or stated.
    settings
        Parameters of the method that differ from its defaults.
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

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Choices:
        """Choices from a page's JSON; everything that is not understood is refused."""
        known = {f.name for f in fields(cls)}
        held = {k: v for k, v in given.items() if k in known and v is not None}
        for name in ("method", "amount", "delta"):
            if not isinstance(held.get(name, ""), str):
                raise UsageError(f"{name} must be text")
        for name, allowed in (
            ("currency", ("epsilon", "approx", "rho")),
            ("each", ("split", "draw")),
            ("format", ("parquet", "csv")),
        ):
            if name in held and held[name] not in allowed:
                raise UsageError(f"{name} is '{held[name]}', expected one of: {', '.join(allowed)}")
        for name, least, most in (("sets", 1, MOST_SETS), ("rows", 0, 10**12)):
            value = held.get(name, least)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise UsageError(f"{name} must be a whole number from {least} to {most:,}")
        if not isinstance(held.get("settings", {}), dict):
            raise UsageError("settings must be names with values")
        if held.get("sets", 1) == 1:
            held.pop("each", None)
        return cls(**held)

    @property
    def budget(self) -> Budget:
        """What may be spent."""
        if self.currency == "rho":
            return ZCDP(self.amount)
        return (
            PureDP(self.amount) if self.currency == "epsilon" else ZCDP.from_approx(self.amount, self.delta)
        )

    def made(self, schema: Schema) -> Method:
        """The method with its settings; targets default to the private columns."""
        if self.method not in METHODS:
            raise UsageError(f"method '{self.method}' is unknown; choose one of: {', '.join(METHODS)}")
        made = METHODS[self.method]
        known = {f.name for f in fields(made)}  # type: ignore[arg-type]
        unknown = [name for name in self.settings if name not in known]
        if unknown:
            raise UsageError(f"method {self.method} has no setting '{unknown[0]}'")
        chosen = dict(self.settings)
        if "targets" in known and "targets" not in chosen and schema.neighbours == "label":
            chosen["targets"] = list(schema.private)
        try:
            return made(**chosen)
        except TypeError as error:
            raise UsageError(f"method {self.method}: {error}") from None

    def rows_for(self, schema: Schema) -> int | None:
        """The number of rows that `synthesize` is told: only under add-remove, where it is stated."""
        return self.rows if schema.neighbours == "add-remove" else None

    # --- the same in other words ------------------------------------------------------------------

    def options(self) -> str:
        """The options that `plan` and `synthesize` share."""
        spend = f"--rho {self.amount}" if self.currency == "rho" else f"--epsilon {self.amount}"
        spend += f" --delta {self.delta}" if self.currency == "approx" else ""
        sets = f" --sets {self.sets} --each {self.each}" if self.sets > 1 else ""
        chosen = "".join(f" --set {shlex.quote(f'{k}={_value(v)}')}" for k, v in self.settings.items())
        return f"--method {shlex.quote(self.method or 'mst')} {spend}{sets}{chosen}"

    def plan_command(self, schema_file: str, data: str, neighbours: str) -> str:
        """`dipsmith plan …`."""
        rows = f" --rows {self.rows}" if self.rows is not None and neighbours != "label" else ""
        read = f" {shlex.quote(data)}" if neighbours == "label" and data else ""
        return f"dipsmith plan{read} --schema {shlex.quote(schema_file)} {self.options()}{rows}"

    def run_command(self, schema_file: str, data: str, neighbours: str, ledger: str, out: str) -> str:
        """`dipsmith synthesize …`."""
        rows = f" --rows {self.rows}" if self.rows is not None and neighbours == "add-remove" else ""
        kind = " --format csv" if self.format == "csv" else ""
        return (
            f"dipsmith synthesize {shlex.quote(data or 'FILE')} --schema {shlex.quote(schema_file)} {self.options()}{rows}{kind} "
            f"--ledger {shlex.quote(ledger)} --out {shlex.quote(out)}"
        )

    def to_yaml(self, data: str, schema_file: str, comparison: Mapping[str, Any] | None = None) -> str:
        """The choices as a file to keep, with those of the last comparison."""
        held: dict[str, object] = {"data": data, "schema": schema_file, "method": self.method}
        held |= {self.currency if self.currency == "rho" else "epsilon": self.amount}
        if self.currency == "approx":
            held["delta"] = self.delta
        held |= {"sets": self.sets, "each": self.each, "rows": self.rows, "format": self.format}
        held["settings"] = dict(self.settings)
        if comparison is not None:
            held["compare"] = {k: comparison[k] for k in ("releases", "analyses", "classifiers")}
        return render({k: v for k, v in held.items() if v not in (None, {})})

    def script(
        self, schema: Schema, data: str, ledger: str, out: str, comparison: Mapping[str, Any] | None = None
    ) -> str:
        """A Python script that does the same, from the folder of the workspace; with the last comparison's analyses."""
        made = self.made(schema)
        chosen = {k: v for k, v in vars(made).items() if k in self.settings or k == "targets"}
        given = ", ".join(f"{k}={v!r}" for k, v in chosen.items() if v is not None)
        budget = {
            "epsilon": f"ds.PureDP({self.amount!r})",
            "rho": f"ds.ZCDP({self.amount!r})",
            "approx": f"ds.ZCDP.from_approx({self.amount!r}, {self.delta!r})",
        }[self.currency]
        more = f", sets={self.sets}, each={self.each!r}" if self.sets > 1 else ""
        rows = self.rows_for(schema)
        more += f", rows={rows}" if rows is not None else ""
        kind = f", format={self.format!r}" if self.format == "csv" else ""
        text = render(schema.to_dict())
        return (
            f'"""Synthetic data in place of {schema.name}: what was chosen in the studio, as a script."""\n\n'
            "import dipsmith as ds\nfrom dipsmith.schema.markup import parse\n\n"
            f"SCHEMA = {_quoted(text)}\n\n"
            "schema = ds.Schema.from_dict(parse(SCHEMA))\n"
            f"ledger = ds.Ledger({ledger!r})      # it must hold a grant for {schema.name!r}\n"
            "release = ds.synthesize(\n"
            f"    {data!r}, schema, ds.{type(made).__name__}({given}), budget={budget}, ledger=ledger{more}\n"
            ")\n"
            f"release.save({out!r}{kind})\n"
            "print(release)\n" + _comparison(data, comparison)
        )


def _comparison(data: str, chosen: Mapping[str, Any] | None) -> str:
    if chosen is None:
        return ""
    analyses = "".join(f"        {analysis!r},\n" for analysis in chosen["analyses"])
    return (
        "\n# CONFIDENTIAL: reads the authentic rows; the ledger logs the look.\n"
        "found = ds.compare(\n"
        f"    {data!r},\n    release,\n    ledger=ledger,\n    classifiers={chosen['classifiers'] or None!r},\n"
        f"    analyses=[\n{analyses}    ],\n"
        ")\n"
        'found.save("comparison")\n'
    )


def _quoted(text: str) -> str:
    if '"""' in text or "\\" in text or text.endswith('"'):
        return repr(text)
    return f'"""\\\n{text}"""'


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
