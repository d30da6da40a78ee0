"""Matrix products without threads.

BLAS starts threads for products of more than 2¹⁸ multiplications. Those of a graphical model are a little larger
than that: what a second thread saves is far less than what waiting for it costs on a machine that has other
things to do (measured: 100 ms instead of 0.1 ms for 16 × 2,880 times 2,880 × 16). So they are cut.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

UNTHREADED = 1 << 18
"""The most multiplications that OpenBLAS does on the thread that asks (its GEMM_MULTITHREAD_THRESHOLD)."""


def product(left: Array, right: Array) -> Array:
    """The product of two matrices, or of two stacks of equally many.

    >>> float(product(np.ones((300, 90)), np.full((90, 20), 0.5))[299, 19])
    45.0
    >>> product(np.ones((2, 1, 3)), np.ones((2, 3, 1))).tolist()
    [[[3.0]], [[3.0]]]
    """
    rows, inner, columns = *left.shape[-2:], right.shape[-1]
    if rows * inner * columns <= UNTHREADED:
        return np.asarray(left @ right)
    if left.ndim > 2:
        return np.stack([product(one, other) for one, other in zip(left, right, strict=True)])
    longest = max(rows, inner, columns)
    step = max(1, UNTHREADED * longest // (rows * inner * columns))
    cuts = [slice(start, start + step) for start in range(0, longest, step)]
    if inner == longest:
        whole = product(left[:, cuts[0]], right[cuts[0]])
        for cut in cuts[1:]:
            whole += product(left[:, cut], right[cut])
        return whole
    if rows == longest:
        return np.concatenate([product(left[cut], right) for cut in cuts])
    return np.concatenate([product(left, right[:, cut]) for cut in cuts], axis=1)
