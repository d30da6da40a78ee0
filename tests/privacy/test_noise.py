"""The two laws: exact by construction, by their implied probabilities and by their frequencies."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from dipsmith.errors import UsageError
from dipsmith.privacy import draws
from dipsmith.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseLaw, noisy_blocks
from dipsmith.privacy.randomness import Stream

PRECISION = Context(prec=120)
BITS = 300


def decimal_exp(x: Fraction) -> Decimal:
    return (-Decimal(x.numerator) / x.denominator).exp()


def probabilities(boundaries: Callable[[int], list[tuple[int, int]]]) -> list[Decimal]:
    """The law that a table samples, from its enclosures at 300 bits (error below 1e-88)."""
    edges = [Decimal(0), *(Decimal(low) / 2**BITS for low, _ in boundaries(BITS)), Decimal(1)]
    return [b - a for a, b in pairwise(edges)]


def close(a: Decimal, b: Decimal, tolerance: str = "1e-50") -> bool:
    return abs(a - b) <= Decimal(tolerance) * max(abs(a), abs(b)) + Decimal("1e-85")


# --- The law that the tables imply, by decimal arithmetic ---------------------------------------------


@pytest.mark.parametrize("scale", ["1/50", "1", "10", "41", "1000", "10000", "1000000007/3"])
def test_tables_imply_exactly_the_discrete_laplace(scale: str):
    b = Fraction(scale)
    tables = draws.laplace_tables(b)
    with localcontext(PRECISION):
        lead = probabilities(tables.lead.boundaries)
        digits = [probabilities(table.boundaries) for table, _ in tables.digits]
        q = decimal_exp(1 / b)
        peak = (1 - q) / (1 + q)
        widths = [width for _, width in tables.digits]
        spread = max(3, int(3 * b))
        for k in sorted({*range(-40, 41), *range(-spread, spread, max(1, spread // 60))}):
            y = k if k >= 0 else -1 - k
            p = Decimal(1)
            for law, width in zip(reversed(digits), reversed(widths), strict=True):
                y, digit = y >> width, y & (1 << width) - 1
                p *= law[digit]
            a = y if k >= 0 else -1 - y
            if -tables.cut <= a < tables.cut:
                p *= lead[a + tables.cut + 1]
                assert close(p, peak * decimal_exp(abs(k) / b)), k
        # The tails: reaching the cut, on either side.
        reach = decimal_exp(tables.cut * (1 << sum(widths)) / b)
        assert close(lead[0], q / (1 + q) * reach)
        assert close(lead[-1], 1 / (1 + q) * reach)


@pytest.mark.parametrize("sigma2", ["1/100", "1/2", "10", "4096", "4097", "1000000", "10000000000"])
@pytest.mark.parametrize("cut", [None, 3])
def test_blocks_and_acceptance_imply_exactly_the_discrete_gaussian(sigma2: str, cut: int | None):
    # Proposal times acceptance must be the same multiple of exp(-k²/2σ²) for every k.
    s = Fraction(sigma2)
    blocks = draws.gaussian_blocks(s, cut)
    cut = blocks.cut
    with localcontext(PRECISION):
        lead = probabilities(blocks.lead.boundaries)
        multiples = []
        width = 1 << blocks.bits
        reach = (cut + 5) * width
        for k in {*range(-20, 21), *range(-reach, reach, max(1, reach // 50))}:
            negative = int(k < 0)
            y = (abs(k) - negative) >> blocks.bits
            ratio = draws._ratio(cut, blocks.bits, negative, blocks.rate)
            if y < cut:
                start = (y << blocks.bits) + negative
                proposal = lead[(-1 - y if negative else y) + cut + 1] / width
                x = (k * k - start * start) * blocks.rate
            else:
                start = (cut << blocks.bits) + negative
                climb = decimal_exp(ratio)
                proposal = lead[0 if negative else -1] * (1 - climb) * climb ** (y - cut) / width
                x = (k * k - start * start) * blocks.rate - (y - cut) * ratio
            assert x >= 0
            weight = decimal_exp(k * k * blocks.rate)
            if weight > Decimal("1e-30"):
                multiples.append(proposal * decimal_exp(x) / weight)
        assert len(multiples) > 1
        assert all(close(m, multiples[0]) for m in multiples)
        # What the first 16 digits accept must be accepted by the value farthest out.
        for block in range(-cut, cut):
            y = block if block >= 0 else -1 - block
            near = y * width + int(block < 0)
            far = near + width - 1
            true = decimal_exp((far * far - near * near) * blocks.rate)
            assert Decimal(int(blocks.safe[block])) / 65536 <= true
            assert true * 65536 - int(blocks.safe[block]) <= 3


@pytest.mark.parametrize("sigma2", ["5000", "1000000", "10000000001/7"])
def test_acceptance_turns_exactly_at_the_ratio_of_weights(sigma2: str):
    # U is put one unit of its 64th digit below and above w(k)/w(nearest end of the block).
    class Given(Stream):
        def words64(self, n: int) -> np.ndarray:
            return rest

    blocks = draws.gaussian_blocks(Fraction(sigma2))
    width = 1 << blocks.bits
    cases = []
    with localcontext(PRECISION):
        for block in (0, 1, 30, blocks.cut - 1, -1, -2, -30, -blocks.cut):
            for place in {0, 1, width // 2, width - 1}:
                value = block * width + place
                nearest = block * width + (0 if block >= 0 else width - 1)
                if value != nearest:
                    p = int(decimal_exp((value**2 - nearest**2) * blocks.rate) * 2**64)
                    cases += [(block, value, p - 1, True), (block, value, p + 1, False)]
    block, value, digits, expected = (np.array(column) for column in zip(*cases, strict=True))
    digits = digits.astype(np.uint64)
    rest = digits << np.uint64(16)
    first = (digits >> np.uint64(48)).astype(np.uint16)
    accepted = draws._accept(Given(), blocks, block.astype(np.int16), value, first)
    assert accepted.tolist() == expected.tolist()
    assert len(cases) >= 16


# --- Frequencies --------------------------------------------------------------------------------------


def chi_square(noise: NoiseLaw, drawn: np.ndarray) -> float:
    """Smaller p-value of two χ² tests against the exact pmf: fine cells and a hundred broad ones."""
    values, counts = np.unique(drawn, return_counts=True)
    reach = int(np.abs(values).max()) + 1
    support = np.arange(-reach, reach + 1)
    observed = np.zeros(support.size)
    observed[values + reach] = counts
    expected = noise.pmf(support) * drawn.size
    return min(grouped(observed, expected, least) for least in (50, drawn.size / 100))


def grouped(observed: np.ndarray, expected: np.ndarray, least: float) -> float:
    """p-value over groups of neighbouring integers that each expect at least `least` draws."""
    group = np.unique(np.floor(np.cumsum(expected) / least), return_inverse=True)[1]
    o, e = np.bincount(group, observed), np.bincount(group, expected)
    while e[-1] < least:
        o, e = np.append(o[:-2], o[-2:].sum()), np.append(e[:-2], e[-2:].sum())
    return float(stats.chisquare(o, e * o.sum() / e.sum()).pvalue) if o.size > 1 else 1.0


LAPLACE = ["1000", "100", "10", "3", "1", "1/3", "1/10"]  # ε = 0.001 … 10 at sensitivity 1
GAUSSIAN = ["1/100", "1/4", "1", "5", "50", "1000", "4096", "5000", "250000"]


@pytest.mark.parametrize("scale", LAPLACE)
def test_laplace_frequencies(scale: str):
    # n = 2e6, χ², FPR 1e-7 for each of the seven.
    law = DiscreteLaplace(Fraction(scale))
    assert chi_square(law, law.sample(Stream.for_testing(scale), 2_000_000)) > 1e-7


@pytest.mark.parametrize("sigma2", GAUSSIAN)
def test_gaussian_frequencies(sigma2: str):
    # n = 2e6, χ², FPR 1e-7 for each of the nine.
    law = DiscreteGaussian(Fraction(sigma2))
    assert chi_square(law, law.sample(Stream.for_testing(sigma2), 2_000_000)) > 1e-7


@pytest.mark.parametrize(
    "law",
    [DiscreteLaplace(Fraction(1000)), DiscreteGaussian(Fraction(5000)), DiscreteGaussian(Fraction(10**6))],
)
def test_low_bits_follow_the_law_on_either_side(law: NoiseLaw):
    # A lost rejection or a digit of the wrong sign shows in the sum over all blocks: n = 4e6, sign times
    # the four lowest bits, 32 cells, χ², FPR 1e-7.
    support = np.arange(-16_000, 16_000)

    def cell(k: np.ndarray) -> np.ndarray:
        return np.where(k < 0, 16 + (~k & 15), k & 15)

    expected = np.bincount(cell(support), law.pmf(support))
    observed = np.bincount(cell(law.sample(Stream.for_testing("bits"), 4_000_000)))
    assert stats.chisquare(observed, expected / expected.sum() * 4_000_000).pvalue > 1e-7


@pytest.mark.parametrize("scale", [10**4, 10**9, 2**50])
def test_wide_laplace_frequencies(scale: int):
    # n = 1e6, Kolmogorov against the exact distribution function (continuous to within 1e-4/σ, which
    # makes the test conservative), and χ² on the low digits, where a second level could go wrong; FPR 1e-7.
    drawn = DiscreteLaplace(Fraction(scale)).sample(Stream.for_testing(scale), 1_000_000)
    x = 1 / scale
    y = drawn.astype(float)

    def distribution(k: np.ndarray) -> np.ndarray:
        tail = np.exp(-x * np.where(k < 0, -k, k + 1)) / (1 + np.exp(-x))
        return np.where(k < 0, tail, 1 - tail)

    assert stats.kstest(y, distribution).pvalue > 1e-7
    assert stats.binomtest(int((drawn & 1).sum()), drawn.size, 0.5).pvalue > 1e-7
    if scale >= 10**9:  # where the ten lowest bits are uniform to within 1e-6
        digits = np.bincount((np.abs(drawn) >> 2) & 255, minlength=256)
        assert stats.chisquare(digits).pvalue > 1e-7


@pytest.mark.parametrize("sigma2", [10**8, 10**10, 2**60])
def test_wide_gaussian_frequencies(sigma2: int):
    # n = 1e6, Kolmogorov against the normal law (which differs by less than 1/σ), FPR 1e-7.
    drawn = DiscreteGaussian(Fraction(sigma2)).sample(Stream.for_testing(sigma2), 1_000_000)
    assert stats.kstest(drawn + 0.5, stats.norm(0, sigma2**0.5).cdf).pvalue > 1e-7
    digits = np.bincount(drawn & 255, minlength=256)
    assert stats.chisquare(digits).pvalue > 1e-7


@pytest.mark.parametrize(("scale", "cut"), [("2", 1), ("10", 5), ("100", 7)])
def test_laplace_tail_starts_again(scale: str, cut: int):
    # The cut is set where most draws pass it. n = 1e6, χ², FPR 1e-7.
    tables = draws.laplace_tables(Fraction(scale), cut)
    drawn = np.empty(1_000_000, np.int64)
    draws.fill_laplace(Stream.for_testing(cut), tables, drawn)
    assert chi_square(DiscreteLaplace(Fraction(scale)), drawn) > 1e-7


@pytest.mark.slow
@pytest.mark.parametrize(("sigma2", "cut"), [("2", 1), ("1/4", 1), ("10000", 90)])
def test_gaussian_tail_follows_its_envelope(sigma2: str, cut: int):
    # The cut is set near σ, so that many draws take the tail. n = 2e4, χ², FPR 1e-7.
    blocks = draws.gaussian_blocks(Fraction(sigma2), cut)
    drawn = np.empty(20_000, np.int64)
    draws.fill_gaussian(Stream.for_testing(cut), blocks, drawn)
    assert np.any(np.abs(drawn) > cut << blocks.bits)
    assert chi_square(DiscreteGaussian(Fraction(sigma2)), drawn) > 1e-7


def test_successive_draws_are_independent():
    # n = 1e6 pairs: correlation of neighbours, of signs, and of sizes; 6 standard errors (FPR 2e-9).
    for law in (DiscreteLaplace(Fraction(1000)), DiscreteGaussian(Fraction(10**6))):
        drawn = law.sample(Stream.for_testing(4), 1_000_001).astype(float)
        for series in (drawn, np.sign(drawn), np.abs(drawn)):
            assert abs(np.corrcoef(series[:-1], series[1:])[0, 1]) < 6e-3


# --- Agreement with OpenDP ----------------------------------------------------------------------------


def two_sample(a: np.ndarray, b: np.ndarray) -> float:
    """p-value that both come from one law, over 40 cells cut at the quantiles of both."""
    cuts = np.unique(np.quantile(np.concatenate([a, b]), np.linspace(0, 1, 41)[1:-1]))
    table = [np.bincount(np.searchsorted(cuts, x), minlength=cuts.size + 1) for x in (a, b)]
    table = np.array(table)[:, np.sum(table, axis=0) > 20]
    return float(stats.chi2_contingency(table).pvalue)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.5, 1.0, 10.0, 1000.0])
def test_laplace_agrees_with_opendp(scale: float):
    # n = 4e4 of theirs, 1e6 of ours; χ² on 40 cells, FPR 1e-7. Theirs cannot be seeded.
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    theirs = np.array(dp.m.make_laplace(*space, scale=scale)([0] * 40_000))
    ours = DiscreteLaplace(Fraction(scale)).sample(Stream.for_testing(1), 1_000_000)
    assert two_sample(ours, theirs) > 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.5, 4.0, 1000.0])
def test_gaussian_agrees_with_opendp(sigma: float):
    # n = 4e4 of theirs, 1e6 of ours; χ² on 40 cells, FPR 1e-7. Theirs cannot be seeded.
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    theirs = np.array(dp.m.make_gaussian(*space, scale=sigma)([0] * 40_000))
    ours = DiscreteGaussian(Fraction(sigma) ** 2).sample(Stream.for_testing(1), 1_000_000)
    assert two_sample(ours, theirs) > 1e-7


def opendp():
    prelude = pytest.importorskip("opendp.prelude")
    prelude.enable_features("contrib")
    return prelude


# --- Formulas -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "variance"), [("1", 1.8413), ("2", 0.3620), ("3", 0.1103), ("1/4", 31.83), ("1000", 0.0)]
)
def test_laplace_variance(epsilon: str, variance: float):
    assert DiscreteLaplace(1 / Fraction(epsilon)).variance == pytest.approx(variance, rel=2e-4)


@pytest.mark.parametrize(
    "law",
    [DiscreteLaplace(Fraction(x)) for x in ("1/9", "2", "300")]
    + [DiscreteGaussian(Fraction(x)) for x in ("1/9", "1", "24", "25", "26", "90000")],
)
def test_probabilities_sum_to_one_and_give_the_variance(law: NoiseLaw):
    k = np.arange(-20_000, 20_001)
    assert law.pmf(k).sum() == pytest.approx(1, rel=1e-12)
    assert (law.pmf(k) * k.astype(float) ** 2).sum() == pytest.approx(law.variance, rel=1e-9)


def test_gaussian_variance_is_below_sigma2():
    assert DiscreteGaussian(Fraction(1, 100)).variance < 1e-20
    assert DiscreteGaussian(Fraction(10)).variance == pytest.approx(10, rel=1e-12)


@pytest.mark.parametrize("law", [DiscreteLaplace, DiscreteGaussian])
@pytest.mark.parametrize("bad", [0.5, 1, 0, Fraction(0), Fraction(-1), Fraction(2**61), None])
def test_parameters_that_are_refused(law: type, bad: object):
    with pytest.raises(UsageError):
        law(bad)


@pytest.mark.parametrize("shape", [0, 1, 7, (2, 3), (0, 4), (300, 1000)])
def test_any_shape(shape: int | tuple[int, ...]):
    for law in (
        DiscreteLaplace(Fraction(5)),
        DiscreteGaussian(Fraction(5)),
        DiscreteGaussian(Fraction(10**6)),
    ):
        drawn = law.sample(Stream(), shape)
        assert drawn.dtype == np.int64
        assert drawn.shape == ((shape,) if isinstance(shape, int) else shape)


def test_laws_are_values():
    assert DiscreteLaplace(Fraction(2)) == DiscreteLaplace(Fraction(4, 2))
    assert len({DiscreteGaussian(Fraction(2)), DiscreteGaussian(Fraction(2))}) == 1


def test_draws_replay_under_a_testing_stream_only():
    law = DiscreteLaplace(Fraction(1000))
    first = law.sample(Stream.for_testing(1), 100)
    assert (first == law.sample(Stream.for_testing(1), 100)).all()
    assert (law.sample(Stream(), 100) != law.sample(Stream(), 100)).any()


# --- Large, mostly empty tables -----------------------------------------------------------------------


class Ramp:
    """Noise that is 0, 1, 2, … in the order of drawing, modulo 10."""

    variance = 1.0

    def __init__(self) -> None:
        self.drawn = 0

    def pmf(self, k: object) -> np.ndarray:
        raise NotImplementedError

    def sample(self, stream: Stream, n: int | tuple[int, ...]) -> np.ndarray:
        assert isinstance(n, int)
        self.drawn += n
        return np.arange(self.drawn - n, self.drawn) % 10


@pytest.mark.parametrize("block", [1, 7, 10, 100, 1000, 5000])
def test_blocks_give_what_a_dense_table_would(block: int):
    indices = np.array([0, 6, 7, 13, 500, 998, 999])
    counts = np.array([5, 1, 100, 0, 7, 1, 9])
    dense = np.arange(1000) % 10
    dense[indices] += counts
    for threshold in (-1, 0, 8, 9, 50):
        kept, values = noisy_blocks(Ramp(), Stream(), indices, counts, 1000, threshold, block)
        assert kept.tolist() == np.flatnonzero(dense > threshold).tolist()
        assert values.tolist() == dense[dense > threshold].tolist()


def test_empty_and_occupied_cells_follow_one_rule():
    # 2e6 cells, half of them occupied with count 0: what is kept must not tell which.
    # Binomial test on the share of occupied cells among the kept ones, FPR 1e-7.
    size = 2_000_000
    occupied = np.arange(0, size, 2)
    law = DiscreteLaplace(Fraction(2))
    kept, values = noisy_blocks(law, Stream.for_testing(2), occupied, np.zeros_like(occupied), size, 6)
    assert (values > 6).all()
    assert stats.binomtest(int((kept % 2 == 0).sum()), kept.size, 0.5).pvalue > 1e-7
    expected = float(law.pmf(np.arange(7, 200)).sum())
    assert stats.binomtest(kept.size, size, expected).pvalue > 1e-7


def test_memory_is_bounded_by_the_block():
    none = np.empty(0, np.int64)
    DiscreteLaplace(Fraction(1)).sample(Stream(), 1)  # builds the table beforehand
    tracemalloc.start()
    kept, _ = noisy_blocks(DiscreteLaplace(Fraction(1)), Stream(), none, none, 20_000_000, 14, 1 << 18)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert kept.size < 200
    assert peak < 16 << 20  # the dense table would take 160 MB


def test_blocks_of_an_empty_table():
    none = np.empty(0, np.int64)
    kept, values = noisy_blocks(DiscreteLaplace(Fraction(1)), Stream(), none, none, 0, 0)
    assert kept.size == values.size == 0


@pytest.mark.parametrize("indices", [[3, 2], [1, 1], [-1, 4], [4, 10], [1]])
def test_cells_that_are_refused(indices: list[int]):
    with pytest.raises(UsageError, match="occupied cells"):
        noisy_blocks(Ramp(), Stream(), np.array(indices), np.array([1, 1]), 10, 0)
