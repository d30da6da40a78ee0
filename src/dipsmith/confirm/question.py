"""A question: a small file that a researcher writes who has nothing but a release.

It names the release (by the digest of its card), the analysis, the claim, and the budget that is asked for; who asks
and why. Nothing private is needed to write it, and nothing in it is run: it is read by the one strict reader of YAML, a
formula by the one parser, a claim by a few patterns. Whoever receives it need not trust it.

Guarantee: two questions with the same *digest* ask the same thing at the same price, whoever asks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from dipsmith.confirm.claim import Accuracy, AgreesWithRelease, Claim, Residuals, Roc, in_words, parse_claim
from dipsmith.errors import BudgetError, InputError, SchemaError, UsageError
from dipsmith.privacy.budget import Budget, budget_in, decimal_text
from dipsmith.privacy.value_question import FEWEST_PARTS, MOST_PARTS
from dipsmith.schema import markup
from dipsmith.schema.analysis import BY
from dipsmith.schema.formula.words import abridge, split
from dipsmith.schema.markup import Problem, check

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
        claim = self.parsed_claim
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
    def parsed_claim(self) -> Claim:
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
        facts["claim"] = repr(self.parsed_claim)  # with every digit, unlike its text
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
        try:
            text = markup.read_text(Path(path), "question", LARGEST_FILE)
        except SchemaError as error:
            raise InputError(str(error)) from None
        return cls.from_text(text)

    def asked_again(self) -> Inquiry:
        """The same question as a new one, at a new charge: for an answer that was lost, or a second opinion."""
        return replace(self, round=self.round + 1)

    def __str__(self) -> str:
        return f"{in_words(self.parsed_claim)}, in {' '.join(self.formula.split())}"


_CLEAN = AfterValidator(lambda text: "".join(c if c.isprintable() else " " for c in text))
Text = Annotated[str, _CLEAN, Field(max_length=1000)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=0, lt=1_000_000)]


class QuestionEntry(BaseModel):
    """The entries of a file; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid")

    dataset: Text
    release: Text
    formula: Annotated[str, _CLEAN, Field(max_length=10_000)]
    claim: Text
    epsilon: Text | None = None
    rho: Text | None = None
    measure: Measure = "poll"
    parts: Whole | None = None
    family: Text = "ols"
    reference: Annotated[dict[Text, Text], Field(max_length=MOST_NUMBERS)] = {}
    known: dict[Literal["estimate", "std_error"], Number] = {}
    model: Annotated[dict[Text, Number], Field(max_length=MOST_NUMBERS)] = {}
    edges: dict[Text, Annotated[list[Number], Field(max_length=MOST_NUMBERS)]] = {}
    by: Text = ""
    why: Text = ""
    round: Whole = 1


def _from_mapping(data: Mapping[str, Any]) -> Inquiry:
    entry = check(QuestionEntry, {name: value for name, value in data.items() if name != "format"}, {}, {})
    if isinstance(entry, Problem):
        raise UsageError(f"{'.'.join(abridge(str(part)) for part in entry.place)}: {entry.remedy}")
    facts = entry.model_dump()
    prices = {currency: price for currency in ("epsilon", "rho") if (price := facts.pop(currency)) is not None}
    if len(prices) != 1:
        raise UsageError("give either epsilon or rho")
    if entry.known and len(entry.known) < 2:
        raise UsageError("known: expected estimate and std_error")
    facts["known"] = (entry.known["estimate"], entry.known["std_error"]) if entry.known else None
    facts["edges"] = {name: tuple(values) for name, values in entry.edges.items()}
    pairs: dict[str, Any] = {name: tuple(facts.pop(name).items()) for name in ("reference", "model", "edges")}
    return Inquiry(budget=budget_in(*next(iter(prices.items()))), **facts, **pairs)
