"""Cost of exact noise per draw, beside OpenDP's samplers, in one run.

    python benchmarks/noise.py

Both are measured in CPU time, the best of several rounds taken in turns, so that a busy machine
disturbs both alike. Ends with status 1 if a ratio falls short of its aim.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dipsmith.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseLaw, noisy_blocks
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.selection import select

DRAWS = 10_000_000
THEIRS = 20_000
ROUNDS = 3


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def opendp_sampler(law: str, scale: float) -> Callable[[], object]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    zeros = [0] * THEIRS
    integers = dp.vector_domain(dp.atom_domain(T=int))
    if law == "laplace":
        measurement = dp.m.make_laplace(integers, dp.l1_distance(T=int), scale=scale)
    else:
        measurement = dp.m.make_gaussian(integers, dp.l2_distance(T=float), scale=scale)
    return lambda: measurement(zeros)


def against_opendp() -> bool:
    cases: list[tuple[str, NoiseLaw, Callable[[], object], int]] = [
        (f"Laplace  ε = {epsilon}", DiscreteLaplace(1 / Fraction(epsilon)), opendp_sampler("laplace", 1 / float(epsilon)), 200)
        for epsilon in ("1", "0.1", "0.001")
    ] + [
        (f"Gaussian σ = {sigma}", DiscreteGaussian(Fraction(sigma) ** 2), opendp_sampler("gaussian", float(sigma)), 50)
        for sigma in ("1", "10", "1000")
    ]  # fmt: skip
    print(f"{DRAWS:.0e} draws, CPU nanoseconds per draw   dipsmith    OpenDP    ratio    aim")
    stream = Stream()
    reached = True
    for name, law, theirs, aim in cases:
        law.sample(stream, 1)  # builds the table
        ours_best = theirs_best = np.inf
        for _ in range(ROUNDS):
            ours_best = min(ours_best, seconds(lambda law=law: law.sample(stream, DRAWS)) / DRAWS)
            theirs_best = min(theirs_best, seconds(theirs) / THEIRS)
        ratio = theirs_best / ours_best
        reached &= ratio >= aim
        print(f"{name:38s} {ours_best * 1e9:10.1f} {theirs_best * 1e9:9.0f} {ratio:8.0f} {aim:6d}")
    return reached


def key_streams() -> None:
    size = 1 << 16
    zeros, out = bytes(size), bytearray(size + 16)
    ciphers = {
        "AES-256-CTR": Cipher(algorithms.AES(os.urandom(32)), modes.CTR(os.urandom(16))).encryptor(),
        "ChaCha20": Cipher(algorithms.ChaCha20(os.urandom(32), os.urandom(16)), None).encryptor(),
    }
    work: dict[str, Callable[[], object]] = {
        name: lambda cipher=cipher: cipher.update_into(zeros, out) for name, cipher in ciphers.items()
    }
    work["os.urandom"] = lambda: os.urandom(size)
    print("\nkey stream, GB per CPU second")
    for name, draw in work.items():
        best = min(seconds(lambda draw=draw: [draw() for _ in range(300)]) for _ in range(ROUNDS))
        print(f"{name:38s} {300 * size / best / 1e9:10.2f}")


def rest() -> None:
    stream = Stream()
    print("\nCPU milliseconds")
    for name, law in (("Laplace ε = 0.001", DiscreteLaplace(Fraction(999))), ("Gaussian σ = 1000", DiscreteGaussian(Fraction(10**6 + 1)))):  # fmt: skip
        print(f"{'first draw, ' + name:38s} {seconds(lambda law=law: law.sample(stream, 1)) * 1e3:10.1f}")
    none = np.empty(0, np.int64)
    dense = seconds(lambda: noisy_blocks(DiscreteLaplace(Fraction(1)), stream, none, none, 100_000_000, 20))
    print(f"{'1e8 empty cells, kept above 20':38s} {dense * 1e3:10.1f}")
    scores = np.random.default_rng(0).normal(size=100_000) * 100
    for law in ("permute-and-flip", "exponential"):
        cost = seconds(lambda law=law: select(stream, scores, Fraction(1), Fraction(1), monotone=False, law=law))
        print(f"{'choice of 1 in 100 000, ' + law:38s} {cost * 1e3:10.1f}")


if __name__ == "__main__":
    reached = against_opendp()
    key_streams()
    rest()
    sys.exit(0 if reached else 1)
