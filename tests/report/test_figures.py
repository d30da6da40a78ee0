"""Figures: the same bytes for the same numbers, page colours, text that stays text, images for many points."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from dipsmith.report import canvas, figures
from dipsmith.report.farthest import Farthest
from dipsmith.report.figures import Against, ChartLine, Distribution, Trend
from dipsmith.report.histograms import Overlay, overlays


def rng():
    return np.random.default_rng(0)


def scatter(n=40, panels=1):
    random = rng()
    x = random.normal(size=n)
    return [
        Against(f"release {i}", x, 0.8 * x + random.normal(0, 0.1, n), [f"p{j}" for j in range(n)], "r = 0.9")
        for i in range(panels)
    ]


MADE = {
    "against": lambda: figures.against(scatter(), "authentic", "synthetic"),
    "against-four": lambda: figures.against(scatter(panels=4), "authentic", "synthetic"),
    "stretched": lambda: figures.against(
        [Against("", np.array([0, 0.001, 0.2]), np.array([0.001, 0.002, 0.25]), ["a", "b", "c"])],
        "x",
        "y",
        power=0.5,
    ),
    "errors": lambda: figures.against(
        [Against("", np.arange(3.0), np.arange(3.0), ["a", "b", "c"], "", np.full(3, 0.1), np.full(3, 0.2))],
        "x",
        "y",
    ),
    "bars": lambda: figures.bars(
        ["a", "b"], np.array([0.6, 0.4]), [ChartLine("synthetic", np.array([0.5, 0.5]))], "share"
    ),
    "trends": lambda: figures.trends(
        ["1996", "2003"],
        [
            Trend(
                "sex[T.F]",
                ChartLine("authentic", np.array([-0.1, -0.2]), np.array([0.01, 0.01])),
                [ChartLine("s", np.array([0.0, np.nan]), np.array([0.1, np.nan]))],
            )
        ],
        "coefficient",
    ),
    "intervals": lambda: figures.intervals(
        ["a", "b"],
        ChartLine("authentic", np.array([1.0, 2]), np.array([0.1, 0.2])),
        [ChartLine("synthetic", np.array([1.1, 1.9]), np.array([0.2, 0.2]))],
        "x",
    ),
    "by_size": lambda: figures.by_size(
        ["1 to 9", "10 or more"], np.array([0.2, 0.1]), [ChartLine("s", np.array([0.4, 0.1]))], "rows", "TVD"
    ),
    "curves": lambda: figures.curves(
        [
            (
                "sex",
                ChartLine("ceiling", np.linspace(0, 1, 11)),
                [ChartLine("attacker", np.linspace(0, 1, 11))],
            )
        ],
        np.linspace(0, 1, 11),
        "x",
        "y",
    ),
    "distributions": lambda: figures.distributions(
        [
            Distribution("job", [f"l{i}" for i in range(20)], rng().dirichlet(np.ones(20)), False),
            Distribution("age", [str(i) for i in range(30)], rng().dirichlet(np.ones(30)), True),
        ]
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_the_same_numbers_give_the_same_bytes(name):
    assert MADE[name]() == MADE[name]()


@pytest.mark.parametrize("name", MADE)
def test_a_drawing_is_well_formed_and_fetches_nothing(name):
    svg = MADE[name]()
    assert svg.startswith("<svg ")
    ET.fromstring(
        svg.replace("<svg ", '<svg xmlns:xlink="http://www.w3.org/1999/xlink" ', 1) if "xmlns:xlink" not in svg else svg
    )
    assert not re.findall(r'href="(?!#|data:)', svg)
    assert "<script" not in svg
    assert "<metadata" not in svg
    assert "<text" in svg  # text is text, not outlines


@pytest.mark.parametrize("name", MADE)
def test_colours_are_those_of_the_page(name):
    svg = MADE[name]()
    left = set(re.findall(r"#[0-9a-f]{6}\b", re.sub(r'(?:id|href)="[^"]*"|url\([^)]*\)|base64,[^"]*', "", svg)))
    assert not left & {c.lower() for c in (canvas.INK, canvas.SOFT, *canvas.COLOURS)}
    assert "var(--ink)" in svg or "var(--soft)" in svg


def test_authentic_is_solid_and_filled_synthetic_dashed_and_open():
    svg = MADE["trends"]()
    dashed = re.findall(r'style="[^"]*stroke-dasharray[^"]*"', svg)
    assert dashed
    assert all("var(--accent)" in style for style in dashed)
    assert re.search(r"fill: var\(--ink\)", svg)


def test_two_drawings_on_one_page_share_no_id():
    ids = [set(re.findall(r' id="([^"]+)"', MADE[name]())) for name in ("against", "bars", "trends")]
    assert not (ids[0] & ids[1] | ids[0] & ids[2] | ids[1] & ids[2])


@pytest.mark.slow
def test_every_reference_has_its_target():
    for made in MADE.values():
        svg = made()
        ids = re.findall(r' id="([^"]+)"', svg)
        assert len(ids) == len(set(ids))
        used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg))
        assert {a or b for a, b in used} <= set(ids)


def test_more_than_five_thousand_points_are_an_image():
    few, many = figures.against(scatter(5000), "x", "y"), figures.against(scatter(5001), "x", "y")
    assert "data:image/png" not in few
    assert "data:image/png" in many
    assert len(many) < 400_000


def test_the_farthest_points_are_named():
    points = Against("", np.zeros(5), np.array([0, 1, 5, 3, 0.5]), list("abcde"))
    svg = figures.against([points], "x", "y")
    assert "1 c" in svg
    assert "2 d" in svg
    assert "3 b" in svg


def test_points_that_differ_at_the_end_of_their_name_are_told_apart():
    names = [f"marital_status = Married-civ-spouse by income = {end}" for end in ("<=50K", ">50K")]
    svg = figures.against([Against("", np.zeros(2), np.array([1.0, 2.0]), names)], "x", "y")
    assert "1 marital_status = Mar…" in svg
    assert len(re.findall(r"[12] marital_status = Mar…[^<]*50K<", svg)) == 2
    assert len(set(re.findall(r"[12] (marital_status = Mar…[^<]*)<", svg))) == 2


def test_a_label_is_not_mathematics():
    svg = figures.bars(["$x^2$ & <b>"], np.array([1.0]), [ChartLine("s", np.array([1.0]))], "share")
    assert "$x^2$ &amp; &lt;b&gt;" in svg


def test_long_labels_are_cut():
    svg = figures.bars(["x" * 200], np.array([1.0]), [ChartLine("s", np.array([1.0]))], "share")
    assert "x" * 60 not in svg


def test_names_of_levels_and_ranges_are_whole():
    """Of three in a row too; a range that ends in dots is none."""
    levels = ["200000-499999", "500000-1999999", "Married-civ-spouse"]
    shares = np.array([0.5, 0.3, 0.2])
    panels = [Overlay(f"c{i}", "", levels, shares, (shares,), ordered=True) for i in range(3)]
    drawn = overlays(panels, ["synthetic"])
    assert all(drawn.count(level) == 3 for level in levels)


def test_many_positions_get_as_many_labels_as_fit():
    years = [str(y) for y in range(1988, 2012)]
    line = ChartLine("authentic", np.zeros(24))
    svg = figures.trends(years, [Trend(t, line, [line]) for t in "abc"], "coefficient")
    shown = [y for y in years if f">{y}<" in svg]
    assert 3 <= len(shown) <= 6
    few = figures.trends(years[:4], [Trend("a", ChartLine("authentic", np.zeros(4)), [])], "coefficient")
    assert all(f">{y}<" in few for y in years[:4])


def test_public_columns_are_grey_and_noise_is_a_whisker():
    shares = np.array([0.6, 0.4])
    public = figures.distributions([Distribution("a", ["x", "y"], shares, False, public=True)])
    assert "var(--accent)" not in public
    plain = figures.distributions([Distribution("a", ["x", "y"], shares, False)])
    noisy = figures.distributions([Distribution("a", ["x", "y"], shares, False, noise=0.05)])
    assert noisy.count("var(--accent)") > plain.count("var(--accent)")


def test_names_at_the_ends_of_lines_do_not_touch():
    lines = [ChartLine(n, np.array([0.3, 0.1])) for n in ("one", "two", "three")]
    svg = figures.by_size(["few", "many"], np.array([0.3, 0.1]), lines, "rows", "TVD")
    places = [
        float(y) for y in re.findall(r'<text[^>]*?(?:y="|translate\([\d.]+ )([\d.]+)[^>]*>(?:one|two|three)<', svg)
    ]
    assert len(places) == 3
    assert min(abs(a - b) for i, a in enumerate(places) for b in places[:i]) > 8  # points


def test_without_matplotlib_nothing_is_available(monkeypatch):
    monkeypatch.setattr("dipsmith.report.figures.find_spec", lambda name: None)
    assert not figures.available()


def test_no_label_is_read_as_mathematics():
    """Titles, names and codes come from others: dollars and backslashes in them are letters."""
    odd = r"$\frac{$ $x^$"
    line = figures.ChartLine(odd, np.array([0.0, 0.5, 1.0]))
    drawn = figures.curves([(odd, line, [line])], np.array([0.0, 0.5, 1.0]), odd, odd)
    assert drawn.count(odd) >= 3


def test_the_studio_has_the_palette_of_the_reports():
    """One palette: the studio's style sheet repeats it, and its alarm alone is lighter in the dark."""
    from importlib.resources import files

    sheet = files("dipsmith.studio").joinpath("static", "studio.css").read_text("utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", sheet)[:2]
    for name, (by_day, by_night) in canvas.PALETTE.items():
        assert f"--{name}: {by_day};" in light
        assert name == "alarm" or f"--{name}: {by_night};" in dark


def test_a_figure_is_what_matplotlib_draws_when_it_draws_twice(monkeypatch):
    """Placing the panels is all that the first of its two drawings is for: the bytes are the same."""

    def drawn():
        with canvas.surface(4.0, 3.0) as (figure, done):
            for axis in figure.subplots(2, 2).ravel():
                axis.plot([0, 1, 2], [3, 1_000_000, 5], label="a long name of a line")
                axis.set(title="a title", xlabel="years", ylabel="pay")
                axis.legend()
            figure.legend(loc="outside upper right")
            return done()

    once = drawn()
    monkeypatch.setattr(canvas, "_once", lambda figure: figure.draw)
    assert drawn() == once


def test_names_of_the_farthest_points_stand_where_no_point_is():
    def corner(x, y, note=""):
        x, y = np.array(x), np.array(y)
        return Farthest.of(x, y, ["agency = AR by race = C"] * len(x), note, lambda v: v, (-1.0, 1.0), 2).corner

    line = [-0.9, 0.0, 0.9]
    assert corner(line, line) == "lower right"
    assert corner([*line, 0.8], [*line, -0.9]) == "upper left"
    assert corner([*line, 0.8, -0.8], [*line, -0.9, 0.6], "r = 0.5\nslope 1") == "below"
    crowded = Against("", np.array([*line, 0.8, -0.8]), np.array([*line, -0.9, 0.9]), ["agency = AR by race = C"] * 5)
    views = [ET.fromstring(figures.against([p], "x", "y")).get("viewBox") for p in (scatter()[0], crowded)]
    free, below = (float(view.split()[3]) for view in views)
    assert free < below


def test_no_whisker_passes_what_values_cannot_pass_and_keys_read_along_their_lines():
    from matplotlib.figure import Figure

    from dipsmith.report.drawing import draw_key, draw_line, release_look

    figure = Figure()
    axis = figure.subplots()
    line = ChartLine("coverage", np.array([0.1, 0.9, 0.5]), np.array([0.3, 0.3, 0.1]))
    draw_line(axis, np.arange(3.0), line, release_look(0), ends=(0.0, 1.0))
    (bars,) = axis.collections
    ends = [tuple(segment[:, 1].round(6)) for segment in bars.get_segments()]
    assert ends == [(0.0, 0.4), (0.6, 1.0), (0.4, 0.6)]
    draw_key(figure, [(name, release_look(i)) for i, name in enumerate("abcde")], 3)
    (key,) = figure.legends
    # a legend fills its columns one after the other: (a, d), (b, e), (c)
    assert [text.get_text() for text in key.get_texts()] == ["a", "d", "b", "e", "c"]


def test_whiskers_of_shares_end_at_0_and_1():
    """Noise that is larger than a share can be says nothing more: the scale is that of shares."""
    short, long = [f"a{i}" for i in range(3)], [f"b{i}" for i in range(60)]
    drawn = [
        Distribution("few", short, np.array([0.8, 0.1, 0.1]), False, noise=4.0),
        Distribution("some", long[:9], np.eye(9)[0], True, noise=2.5),
        Distribution("many", long, np.full(60, 1 / 60), True, noise=3.0),
    ]
    numbers = [float(x) for x in re.findall(r">\s*(\d+(?:\.\d+)?)\s*</text>", figures.distributions(drawn))]
    assert len(numbers) > 6
    assert max(numbers) <= 1
