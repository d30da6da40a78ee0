"""A question: a small file that a researcher writes who has nothing but a release.

It names the release (by the digest of its card), the analysis, the claim, and the budget that is asked for; who asks and
why. Nothing private is needed to write it, and nothing in it is run: it is read by the one strict reader of YAML, a formula by
the one parser, a claim by a few patterns. Whoever receives it need not trust it.

Guarantee: two questions with the same *digest* ask the same thing at the same price, whoever asks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, get_args

from dipsmith.confirm.claim import Accuracy, AgreesWithRelease, Claim, Residuals, Roc, in_words, parse_claim
from dipsmith.errors import BudgetError, InputError, SchemaError, UsageError
from dipsmith.privacy.budget import Budget, budget_in, decimal_text
from dipsmith.privacy.poll import FEWEST_PARTS, MOST_PARTS
from dipsmith.schema import markup
from dipsmith.schema.analysis import BY
from dipsmith.schema.formula.words import abridge, split

FORMAT: Final = "dipsmith question 1"
LARGEST_FILE: Final = 1_000_000
MOST_NUMBERS: Final = 2000
"""Coefficients of a model, or edges, that a question may bring."""
Measure = Literal["poll", "direct", "counts"]
"""A poll of parts; a direct estimate from noisy sums; counts of a public classification."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Inquiry:
    """What is asked, of which release, at which price.

    `parts` is for polls. `known` are the release's estimate and standard error of the coefficient, for a claim that names
    the release. `model` are the coefficients of a model of the release, and `edges` the public bins of its fitted values,
    residuals or scores, for claims about its predictions.
    """

    dataset: str
    release: str
    formula: str
    claim: str
    budget: Budget
    measure: Measure = "poll"
    parts: int | None = None
    family: str = "ols"
    reference: tuple[tuple[str, str], ...] = ()
    known: tuple[float, float] | None = None
    model: tuple[tuple[str, float], ...] = ()
    edges: tuple[tuple[str, tuple[float, ...]], ...] = ()
    by: str = ""
    why: str = ""
    round: int = 1

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.release):
            raise UsageError("release: expected the SHA-256 of a release's card.json, 64 hexadecimal digits")
        if self.measure not in get_args(Measure):
            raise UsageError(f"measure is '{abridge(self.measure)}', expected poll, direct or counts")
        if self.family not in ("ols", "logistic"):
            raise UsageError(f"family is '{abridge(self.family)}', expected ols or logistic")
        if BY.search(self.formula):
            raise UsageError("a question is about one formula, not one for each value of a column; ask about a trend")
        split(self.formula)
        claim = self.parsed
        predicts = isinstance(claim, Accuracy | Residuals | Roc)
        if (self.measure == "counts") != predicts:
            raise UsageError(
                f"claim '{abridge(self.claim)}' is answered by {'counts' if predicts else 'a poll'}; set measure"
            )
        if (self.measure == "poll") != (self.parts is not None):
            raise UsageError("a poll needs a number of parts, and nothing else does")
        if self.parts is not None and not FEWEST_PARTS <= self.parts <= MOST_PARTS:
            raise UsageError(f"parts is {self.parts}, expected {FEWEST_PARTS} to {MOST_PARTS}")
        if isinstance(claim, AgreesWithRelease) != (self.known is not None):
            raise UsageError("a claim that names the release needs known: {estimate, std_error}, and no other does")
        if self.known is not None and not self.known[1] > 0:
            raise UsageError("known: std_error must be above 0")
        if predicts != bool(self.model):
            raise UsageError("a claim about predictions needs the model's coefficients, and no other does")
        if not 1 <= self.round <= 1000:
            raise UsageError(f"round is {self.round}, expected 1 to 1000")

    @property
    def parsed(self) -> Claim:
        """The claim as a value."""
        return parse_claim(self.claim)

    @property
    def means(self) -> str:
        """How it will be answered, in words."""
        named = {"direct": "a direct estimate from noisy sums", "counts": "noisy counts"}
        return named.get(self.measure, f"a poll of {self.parts} parts")

    @property
    def digest(self) -> str:
        """What tells this question from others: all but who asks and why."""
        facts = {name: value for name, value in self.facts().items() if name not in ("by", "why")}
        facts["formula"] = [[word.kind, word.value] for word in split(self.formula)]
        facts["claim"] = repr(self.parsed)  # with every digit, unlike its text
        return sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @property
    def request(self) -> str:
        """The request id under which the ledger charges it, once."""
        return f"question {self.digest[:32]}"

    def facts(self) -> dict[str, Any]:
        """As JSON-able values, in the order of the file; what is not used is left out."""
        facts: dict[str, Any] = {
            "format": FORMAT,
            "dataset": self.dataset,
            "release": self.release,
            "formula": self.formula,
            "family": self.family,
            "reference": dict(self.reference),
            "claim": self.claim,
            "measure": self.measure,
            "parts": self.parts,
            self.budget.currency: decimal_text(self.budget.units),
            "known": None if self.known is None else {"estimate": self.known[0], "std_error": self.known[1]},
            "model": dict(self.model),
            "edges": {name: list(values) for name, values in self.edges},
            "round": None if self.round == 1 else self.round,
            "by": self.by,
            "why": self.why,
        }
        return {name: value for name, value in facts.items() if value not in (None, {}, "")}

    def to_yaml(self) -> str:
        """The text of the file."""
        import yaml

        return yaml.safe_dump(self.facts(), sort_keys=False, allow_unicode=True, width=100)

    @classmethod
    def from_text(cls, text: str) -> Inquiry:
        """Read the text of a file, YAML or JSON; every problem is one line."""
        try:
            data = markup.Document.of(text, limit=LARGEST_FILE).data
        except SchemaError as error:
            raise InputError(f"the question cannot be read: {error}") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise InputError(f"this is no question: expected a mapping with format: {FORMAT}")
        try:
            return _from_mapping(data)
        except (UsageError, SchemaError, BudgetError) as error:
            raise InputError(f"the question cannot be asked: {error}") from None

    @classmethod
    def read(cls, path: str | Path) -> Inquiry:
        """Read a file."""
        place = Path(path)
        if not place.is_file():
            raise InputError(f"'{place}' is not a file; give the question that `dipsmith ask` wrote")
        if place.stat().st_size > LARGEST_FILE:
            raise InputError(f"'{place}' has more than {LARGEST_FILE:,} bytes, which no question needs")
        try:
            return cls.from_text(place.read_text("utf-8"))
        except UnicodeDecodeError:
            raise InputError(f"'{place}' is not UTF-8 text") from None

    def asked_again(self) -> Inquiry:
        """The same question as a new one, at a new charge: for an answer that was lost, or a second opinion."""
        return replace(self, round=self.round + 1)

    def __str__(self) -> str:
        return f"{in_words(self.parsed)}, in {' '.join(self.formula.split())}"


@dataclass
class _Fields:
    """The entries of a file, each taken once; what is left over is refused."""

    data: dict[str, Any]
    left: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.left = set(self.data)

    def text(self, name: str, most: int = 1000, default: str | None = None) -> str:
        self.left.discard(name)
        value = self.data.get(name, default)
        if not isinstance(value, str) or len(value) > most:
            raise UsageError(f"{name}: expected a text of at most {most:,} characters")
        return "".join(c if c.isprintable() else " " for c in value)

    def number(self, name: str, value: object) -> float:
        try:
            found = float(str(value))
        except ValueError:
            found = float("nan")
        if isinstance(value, dict | list) or not abs(found) < float("inf"):
            raise UsageError(f"{name}: expected a finite number")
        return found

    def whole(self, name: str) -> int | None:
        self.left.discard(name)
        value = self.data.get(name)
        if value is None:
            return None
        if not (isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 7):
            raise UsageError(f"{name}: expected a whole number")
        return int(value)

    def mapping(self, name: str) -> Mapping[str, Any]:
        self.left.discard(name)
        value = self.data.get(name) or {}
        if not isinstance(value, dict) or len(value) > MOST_NUMBERS:
            raise UsageError(f"{name}: expected a mapping of at most {MOST_NUMBERS:,} entries")
        return {str(key)[:1000]: entry for key, entry in value.items()}


def _from_mapping(data: dict[str, Any]) -> Inquiry:
    fields = _Fields(data)
    fields.text("format")
    currencies = [c for c in ("epsilon", "rho") if c in data]
    if len(currencies) != 1:
        raise UsageError("give either epsilon or rho")
    budget = budget_in(currencies[0], fields.text(currencies[0], 40))
    known = fields.mapping("known")
    if known and set(known) != {"estimate", "std_error"}:
        raise UsageError("known: expected estimate and std_error")
    edges = fields.mapping("edges")
    listed: list[tuple[str, tuple[float, ...]]] = []
    for name, values in edges.items():
        if not isinstance(values, list) or len(values) > MOST_NUMBERS:
            raise UsageError(f"edges: {abridge(name)} is a list of at most {MOST_NUMBERS:,} numbers")
        listed.append((name, tuple(fields.number("edges", v) for v in values)))
    formula = fields.text("formula", 10_000)
    measure: Any = fields.text("measure", default="poll")
    found = Inquiry(
        dataset=fields.text("dataset"),
        release=fields.text("release", 64),
        formula=formula,
        claim=fields.text("claim"),
        budget=budget,
        measure=measure,
        parts=fields.whole("parts"),
        family=fields.text("family", default="ols"),
        reference=tuple((n, _text("reference", v)) for n, v in fields.mapping("reference").items()),
        known=(fields.number("known", known["estimate"]), fields.number("known", known["std_error"]))
        if known
        else None,
        model=tuple((n, fields.number("model", v)) for n, v in fields.mapping("model").items()),
        edges=tuple(listed),
        by=fields.text("by", default=""),
        why=fields.text("why", default=""),
        round=fields.whole("round") or 1,
    )
    if fields.left:
        raise UsageError(f"'{abridge(sorted(fields.left)[0])}' is no entry of a question; remove it")
    return found


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > 1000:
        raise UsageError(f"{name}: expected text")
    return value
