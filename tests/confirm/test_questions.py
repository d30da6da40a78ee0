"""Questions are strangers' input: read strictly, told apart by what they ask, and never run."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dipsmith.confirm.claim import (
    Accuracy,
    AgreesWithRelease,
    Between,
    OneSided,
    Residuals,
    Roc,
    TrendOver,
    in_words,
    parse_claim,
    resolve,
)
from dipsmith.confirm.question import LARGEST_FILE, Inquiry
from dipsmith.errors import DipsmithError, InputError, UsageError
from dipsmith.privacy.budget import ZCDP, PureDP

QUESTION = Inquiry("people", "0" * 64, "y ~ s + x", "s[F] < 0", PureDP("0.25"), parts=20, reference=(("s", "M"),))


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("sex[F] < 0", OneSided("sex[F]", "<", 0)),
        ("  I(age ** 2)>=-1e-3 ", OneSided("I(age ** 2)", ">", -0.001)),
        ("-0.1 < sex[F] <= .2", Between("sex[F]", -0.1, 0.2)),
        ("sex[F] = -0.06 within 0.02", Between("sex[F]", -0.08, -0.039999999999999994)),
        ("race[B] == race[C] within 0.01", Between("race[B]", -0.01, 0.01, "race[C]")),
        ("sex[F] = release", AgreesWithRelease("sex[F]")),
        ("trend of sex[F] over year > 0", TrendOver("sex[F]", "year", ">")),
        ("accuracy within 0.1 > 0.8", Accuracy(0.1, 0.8)),
        ("residuals", Residuals()),
        ("roc", Roc()),
        ("roc > 0.7", Roc(0.7)),
    ],
)
def test_claims_are_read_and_written(text, claim):
    assert parse_claim(text) == claim
    assert parse_claim(str(claim)) == claim
    assert in_words(claim).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sex[F]",
        "sex[F] < a",
        "1 < sex[F] < 0",
        "x < 1e999",
        "a = b within 0",
        "roc > 2",
        "accuracy within 1 > 1",
        "< 0",
        "x" * 501,
    ],
)
def test_what_is_no_claim_is_refused_in_a_line(text):
    with pytest.raises(UsageError) as error:
        parse_claim(text)
    assert "\n" not in str(error.value)


def test_a_coefficient_is_found_by_the_names_people_use():
    names = ("Intercept", "sex[T.F]", "race[T.B]:sex[T.F]")
    assert resolve("sex[F]", names) == resolve("sex[T.F]", names) == "sex[T.F]"
    assert resolve("race[B]:sex[F]", names) == names[2]
    assert resolve("mean", names) == "Intercept"
    with pytest.raises(UsageError, match="there are: Intercept"):
        resolve("sex[M]", names)


def test_a_question_is_read_back_as_it_was_written():
    for question in (
        QUESTION,
        replace(QUESTION, budget=ZCDP("0.01"), by="Änn", why="to: know # this", round=3),
        replace(QUESTION, claim="s[F] = release", known=(1e-5, 0.2)),
        replace(
            QUESTION,
            claim="residuals",
            measure="counts",
            parts=None,
            model=(("x", 0.5),),
            edges=(("fitted", (0.0, 1.0)),),
        ),
    ):
        assert Inquiry.from_text(question.to_yaml()) == question


def test_the_digest_is_what_is_asked_not_who_asks():
    same = replace(QUESTION, by="Bob", why="other", formula="y ~  s + x", claim="s[F]<0")
    assert same.digest == QUESTION.digest
    others = [
        replace(QUESTION, parts=21),
        replace(QUESTION, budget=PureDP("0.5")),
        replace(QUESTION, claim="s[F] > 0"),
        replace(QUESTION, formula="y ~ s"),
        replace(QUESTION, release="1" * 64),
        replace(QUESTION, reference=()),
        QUESTION.asked_again(),
    ]
    assert len({q.digest for q in [QUESTION, *others]}) == len(others) + 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"claim": "s[F] < 0.12345678"}, {"claim": "s[F] < 0.12345679"}),
        ({"claim": "s[F] = s[M] within 0.1000001"}, {"claim": "s[F] = s[M] within 0.1000002"}),
        ({"formula": 'y == "a  b" ~ s + x'}, {"formula": 'y == "a b" ~ s + x'}),
        ({"formula": "y ~ s + `x  1`"}, {"formula": "y ~ s + `x 1`"}),
    ],
)
def test_questions_that_differ_in_late_digits_or_in_spaces_of_a_text_are_not_the_same(one, other):
    """Otherwise the second would be given the stored answer of the first."""
    assert replace(QUESTION, **one).digest != replace(QUESTION, **other).digest


def test_a_formula_of_unknown_characters_is_no_question():
    with pytest.raises(InputError, match="not part of a formula"):
        Inquiry.from_text(TEXT.replace("formula: y ~", "formula: y ~ $ +"))


TEXT = QUESTION.to_yaml()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "format: other",
        TEXT + "extra: 1\n",
        TEXT.replace("parts: 20", "parts: 2000"),
        TEXT.replace("parts: 20", "parts: [1]"),
        TEXT.replace("parts: 20", "parts: 0x10"),
        TEXT.replace("'0.25'", "nan"),
        TEXT.replace("'0.25'", "-1"),
        TEXT.replace("epsilon: '0.25'", "epsilon: 1\nrho: 1"),
        TEXT.replace("y ~ s + x", "y ~ s + x | by g"),
        TEXT.replace("0" * 64, "0" * 63),
        TEXT.replace("family: ols", "family: os.system"),
        TEXT.replace("claim: s[F] < 0", "claim: residuals"),
        TEXT.replace("claim: s[F] < 0", "claim: {a: b}"),
        TEXT.replace("s: M", "s: [M]"),
        TEXT.replace("dataset: people", "dataset: !!python/object/apply:os.system [ls]"),
        TEXT.replace("dataset: people", "dataset: &a people"),
        "a" * (LARGEST_FILE + 1),
    ],
)
def test_hostile_files_are_refused_in_a_line(text):
    with pytest.raises(InputError) as error:
        Inquiry.from_text(text)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 700


@pytest.mark.slow
@settings(max_examples=25, derandomize=True, deadline=None)
@given(st.text(max_size=30), st.sampled_from(["dataset", "claim", "formula", "by", "parts", "known"]))
def test_any_text_in_any_place_is_read_or_refused(text, name):
    facts = {**QUESTION.facts(), name: text}
    try:
        found = Inquiry.from_text(json.dumps(facts))
    except DipsmithError:
        return
    assert found.by.isprintable()


def test_control_characters_are_cleaned():
    found = Inquiry.from_text(json.dumps({**QUESTION.facts(), "by": "a\x1b]0;b\x07", "why": "\u202eabc"}))
    assert (found.by, found.why) == ("a ]0;b ", " abc")


def test_a_file_that_is_none_is_refused(tmp_path):
    with pytest.raises(InputError, match="got a folder"):
        Inquiry.read(tmp_path)
    (tmp_path / "q").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InputError, match="UTF-8"):
        Inquiry.read(tmp_path / "q")
