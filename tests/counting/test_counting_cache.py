"""Codes kept between passes: what comes out is what went in, in as few bytes as were promised."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dipsmith.counting.cache import Cache
from dipsmith.schema.codes import code_dtype


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([1, 2, 3, 4, 5, 8, 9, 16, 17, 100, 128, 129, 256, 257, 70_000]), max_size=9),
    st.lists(st.integers(0, 40), max_size=5),
    st.integers(0, 1_500),
    st.integers(0, 2**32),
)
def test_blocks_come_back_as_they_were(sizes: list[int], lengths: list[int], room: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = {f"c{i}": size for i, size in enumerate(sizes)}
    blocks = [
        {
            # the largest code of every column occurs, so that bits that spill over would be seen
            name: np.append(rng.integers(0, size, max(n - 1, 0)), [size - 1] * (n > 0)).astype(
                code_dtype(size)
            )
            for name, size in names.items()
        }
        for n in lengths
    ]
    cache = Cache(room, names)
    for block in blocks:
        cache.add({name: column.copy() for name, column in block.items()})
    assert cache.nbytes <= room
    kept = list(cache)
    assert len(kept) == len(set(kept))
    assert set(kept) <= set(names)
    assert [name in cache for name in names] == [name in kept for name in names]
    for name in kept:
        for i, block in enumerate(blocks):
            found = cache.block(name, i)
            assert found.dtype == block[name].dtype
            np.testing.assert_array_equal(found, block[name])


def test_columns_share_bytes() -> None:
    """Bits 4, 5, 4, 4, 3, 4, 1 take four bytes instead of seven; a column of 256 codes takes one by itself."""
    sizes = dict(zip("abcdefg", (12, 20, 15, 15, 8, 10, 2), strict=True)) | {"h": 256}
    cache = Cache(1 << 20, sizes)
    cache.add({name: np.full(1_000, size - 1, dtype=np.uint8) for name, size in sizes.items()})
    assert cache.nbytes == 5_000
    assert {name: set(cache.block(name, 0).tolist()) for name in sizes} == {
        n: {s - 1} for n, s in sizes.items()
    }
