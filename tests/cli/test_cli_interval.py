"""`dipsmith interval`: the same numbers as the law, one answer for every two of n, λ and width."""

import builtins
import csv
import json

import pytest

from dipsmith.planning.leaf_interval import interval


def test_json_has_what_was_agreed(dipsmith):
    ran = dipsmith("interval", "--p0", "0.25", "--lam", "0.4", "--n", "1000", "--json")
    assert ran.code == 0
    found = json.loads(ran.out)
    asked = {k: found[k] for k in ("lo", "hi", "n", "lam", "p0", "level")}
    assert asked == {"lo": 0.227, "hi": 0.273, "n": 1000, "lam": 0.4, "p0": 0.25, "level": 0.9}
    assert (found["kind"], found["law"], found["m"]) == ("sym", "continuous", 1000)


def test_text_says_it_in_a_sentence(dipsmith):
    ran = dipsmith("interval", "--p0", "0.25", "--lam", "0.4", "--n", "1000")
    assert "[0.227, 0.273]" in ran.out
    assert len(ran.out.splitlines()) == 1


@pytest.mark.parametrize("kind", ["sym", "interp", "equal"])
@pytest.mark.parametrize("law", ["continuous", "discrete"])
def test_every_kind_and_law(dipsmith, kind, law):
    ran = dipsmith(
        "interval", "--p0", 0.1, "--lam", 0.2, "--n", 80, "--m", 120, "--kind", kind, "--law", law, "--level", 0.8, "--json"
    )  # fmt: skip
    expected = interval(0.1, 0.2, 80, m=120, kind=kind, noise=law, level=0.8)
    found = json.loads(ran.out)
    assert (found["lo"], found["hi"]) == (expected.lo, expected.hi)


def test_two_give_the_third(dipsmith):
    rows = json.loads(dipsmith("interval", "--p0", 0.25, "--lam", 0.4, "--width", 0.05, "--json").out)
    assert rows["n"] == 836
    assert rows["hi"] - rows["lo"] <= 0.05
    rate = json.loads(dipsmith("interval", "--p0", 0.25, "--n", 836, "--width", 0.05, "--json").out)
    assert rate["lam"] == pytest.approx(0.4, rel=0.02)
    text = dipsmith("interval", "--p0", 0.25, "--n", 836, "--width", 0.05).out
    assert "At least λ = 0.39" in text


def test_simulation_stands_beside(dipsmith):
    ran = dipsmith(
        "interval", "--p0", 0.25, "--lam", 0.3, "--n", 1000, "--kind", "equal", "--simulate", 10000, "--json"
    )
    found = json.loads(ran.out)
    assert found["simulated"]["lo"] == pytest.approx(found["lo"], abs=0.002)
    assert found["simulated"]["hi"] == pytest.approx(found["hi"], abs=0.002)


@pytest.mark.slow
def test_figures_come_with_their_numbers(dipsmith, tmp_path):
    pytest.importorskip("matplotlib")
    ran = dipsmith("interval", "--plot", "intervals.svg", "--json")
    assert ran.code == 0
    drawn = (tmp_path / "intervals.svg").read_text("utf-8")
    assert "authentic share 0.25" in drawn
    assert "percentage points" in drawn
    with (tmp_path / "intervals.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6 * 10 * 8
    row = next(r for r in rows if (r["p0"], r["n"], r["lam"]) == ("0.25", "1000", "0.4"))
    assert (float(row["lo"]), float(row["hi"])) == (0.227, 0.273)
    ran = dipsmith("interval", "--simulate", "10000", "--plot", "simulation.png")
    assert ran.code == 0
    assert (tmp_path / "simulation.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "simulation.csv").open() as file:
        for row in csv.DictReader(file):
            for end in ("lo", "hi"):
                # 10,000 draws: a record or two of 1,000.
                assert float(row[f"simulated_{end}"]) == pytest.approx(float(row[f"exact_{end}"]), abs=0.002)


def test_a_figure_overwrites_nothing(dipsmith, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "people.csv").write_text("precious\n")
    ran = dipsmith("interval", "--plot", "people.svg")
    assert ran.code == 3
    assert (tmp_path / "people.csv").read_text() == "precious\n"
    assert not (tmp_path / "people.svg").exists()


def test_without_matplotlib_it_says_what_to_install(dipsmith, monkeypatch):
    there = builtins.__import__

    def absent(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return there(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    ran = dipsmith("interval", "--plot", "out.svg")
    assert ran.code == 6
    assert "dipsmith[analysis]" in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--p0", 0.2, "--n", 100),
        ("--lam", 0.2, "--n", 100),
        ("--p0", 0.2, "--n", 100, "--lam", 1, "--width", 0.1),
        ("--p0", 2, "--n", 100, "--lam", 1),
        ("--p0", 0.2, "--n", 0, "--lam", 1),
        ("--p0", 0.2, "--n", 100, "--lam", -1),
        ("--p0", 0.2, "--n", 100, "--lam", "nan"),
        ("--p0", 0.2, "--n", 100, "--lam", 1, "--law", "normal"),
        ("--p0", 0.2, "--n", 100, "--lam", 1, "--kind", "wide"),
        ("--p0", 0.2, "--n", 100, "--lam", 1, "--level", 1),
        ("--p0", 0.2, "--n", 100, "--width", 0.01),
        ("--p0", 0.2, "--n", 100, "--lam", 1, "--simulate", 0),
        ("--p0", 0.2, "--n", 100, "--lam", 1, "--simulate", 9, "--seed", -1),
        ("--p0", 0.2, "--lam", 1, "--width", 1e-320),
        ("--plot", "out.pdf"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_exit_code_2(dipsmith, arguments):
    ran = dipsmith("interval", *arguments)
    assert ran.code == 2
    assert ran.err.startswith("dipsmith: error: ")
    assert len(ran.err.splitlines()) == 1
