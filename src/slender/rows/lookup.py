"""Products with a block of product-quantised rows, without decompressing it (TN12, §4.2).

    multiply(codes, codebooks, B, out)       out = X B         Algorithm 1, transposed
    accumulate(codes, codebooks, G, out)     out += Gᵀ X       Algorithm 2, transposed

Row i of X is the concatenation of the centroids codebooks[q, codes[i, q]], q = 0, 1, ...  So a
product with it is a sum of numbers from a table of the products with every centroid (Algorithm 1).
A sum of rows first adds up the coefficients of the same centroid (Algorithm 2).

The order of the loops is chosen for the caches.  The table of a part is LANES = 16 columns wide in
float32: 16 KB, and two of them fill the first-level cache.  As many columns of the sums of a
block's rows stay in the second-level cache.  Codes are transposed part by part, GROUP parts (a
cache line of a row) at a time.  A table is computed, used for all rows of the block and discarded,
so that memory does not grow with the number of parts.  Computing it costs as much as CENTROIDS
rows, which is why a block has thousands.  The kernels use one thread: parallel work is divided into
blocks (threads.py).
"""

from typing import Any

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from ..kernels import kernel
from .simd import LANE_BYTES, load, nothing, plus, store, times_plus

CENTROIDS = 256  # a code is a byte
GROUP = 64
HALVES = np.uint64(0x00000000FFFFFFFF)
QUARTERS = np.uint64(0x0000FFFF0000FFFF)
EIGHTHS = np.uint64(0x00FF00FF00FF00FF)
FAST = {"reassoc", "contract", "nsz"}


@kernel(fastmath=FAST)
def multiply(codes, codebooks, B, out):  # type: ignore[no-untyped-def]
    """out (R, m) = X B for B (d, m)."""
    R, Q = codes.shape
    size, m, LANES = codebooks.shape[2], B.shape[1], LANE_BYTES // B.itemsize
    sums = np.zeros((-(-m // LANES), R, LANES), B.dtype)
    tables = np.empty((2, CENTROIDS, LANES), B.dtype)
    columns = np.zeros((size, LANES), B.dtype)
    turned = np.empty((GROUP, -(-R // 8) * 8), np.uint8)
    for first in range(0, Q, GROUP):
        parts = min(GROUP, Q - first)
        turn(codes, first, parts, turned)
        for k in range(len(sums)):
            lanes = min(LANES, m - k * LANES)
            for p in range(0, parts, 2):
                pair = min(2, parts - p)
                for r in range(pair):
                    q = first + p + r
                    for j in range(size):
                        for c in range(lanes):
                            columns[j, c] = B[q * size + j, k * LANES + c]
                        for c in range(lanes, LANES):
                            columns[j, c] = 0
                    fill_table(codebooks[q], columns, tables[r])
                if pair == 2:
                    add_two(turned[p], turned[p + 1], tables[0], tables[1], sums[k])
                else:
                    add_one(turned[p], tables[0], sums[k])
    for k in range(len(sums)):
        lanes = min(LANES, m - k * LANES)
        for i in range(R):
            for c in range(lanes):
                out[i, k * LANES + c] = sums[k, i, c]


@kernel(fastmath=FAST)
def accumulate(codes, codebooks, G, out):  # type: ignore[no-untyped-def]
    """out (m, d) += Gᵀ X for G (R, m)."""
    R, Q = codes.shape
    size, m, LANES = codebooks.shape[2], G.shape[1], LANE_BYTES // G.itemsize
    blocks = -(-m // LANES)
    summands = np.zeros((blocks, R, LANES), G.dtype)
    for k in range(blocks):
        lanes = min(LANES, m - k * LANES)
        for i in range(R):
            for c in range(lanes):
                summands[k, i, c] = G[i, k * LANES + c]
    table = np.empty((CENTROIDS, LANES), G.dtype)
    result = np.empty((size, LANES), G.dtype)
    turned = np.empty((GROUP, -(-R // 8) * 8), np.uint8)
    for first in range(0, Q, GROUP):
        parts = min(GROUP, Q - first)
        turn(codes, first, parts, turned)
        for k in range(blocks):
            lanes = min(LANES, m - k * LANES)
            for p in range(parts):
                q = first + p
                table[:] = 0
                collect(turned[p], summands[k], table)
                empty_table(codebooks[q], table, result)
                for c in range(lanes):
                    row = out[k * LANES + c]
                    for j in range(size):
                        row[q * size + j] += result[j, c]


@register_jitable
def turn(codes, first, parts, turned):  # type: ignore[no-untyped-def]
    """turned[p, :R] = the codes of part first + p."""
    R, Q = codes.shape
    start = 0
    if Q % 8 == 0:  # then first and parts are multiples of 8, too
        start = R - R % 8
        words, turned_words = codes.view(np.uint64), turned.view(np.uint64)
        for i in range(0, start, 8):
            for p in range(0, parts, 8):
                turn_words(words, i, (first + p) // 8, turned_words, p, i // 8)
    for i in range(start, R):
        for p in range(parts):
            turned[p, i] = codes[i, first + p]


@register_jitable
def turn_words(words, i, k, turned, p, j):  # type: ignore[no-untyped-def]
    """Eight bytes of eight rows, transposed in eight registers: by halves, quarters, eighths."""
    a0, a1, a2, a3 = words[i, k], words[i + 1, k], words[i + 2, k], words[i + 3, k]
    a4, a5, a6, a7 = words[i + 4, k], words[i + 5, k], words[i + 6, k], words[i + 7, k]
    half, quarter, eighth = np.uint64(32), np.uint64(16), np.uint64(8)
    a0, a4 = swap(a0, a4, half, HALVES)
    a1, a5 = swap(a1, a5, half, HALVES)
    a2, a6 = swap(a2, a6, half, HALVES)
    a3, a7 = swap(a3, a7, half, HALVES)
    a0, a2 = swap(a0, a2, quarter, QUARTERS)
    a1, a3 = swap(a1, a3, quarter, QUARTERS)
    a4, a6 = swap(a4, a6, quarter, QUARTERS)
    a5, a7 = swap(a5, a7, quarter, QUARTERS)
    a0, a1 = swap(a0, a1, eighth, EIGHTHS)
    a2, a3 = swap(a2, a3, eighth, EIGHTHS)
    a4, a5 = swap(a4, a5, eighth, EIGHTHS)
    a6, a7 = swap(a6, a7, eighth, EIGHTHS)
    turned[p, j], turned[p + 1, j], turned[p + 2, j], turned[p + 3, j] = a0, a1, a2, a3
    turned[p + 4, j], turned[p + 5, j], turned[p + 6, j], turned[p + 7, j] = a4, a5, a6, a7


@register_jitable
def swap(a, b, shift, mask):  # type: ignore[no-untyped-def]
    """Swap the upper parts of a and the lower parts of b."""
    t = ((a >> shift) ^ b) & mask
    return a ^ (t << shift), b ^ t


@register_jitable
def fill_table(codebook, columns, table):  # type: ignore[no-untyped-def]
    """table = codebook columns, the products with every centroid; four centroids at a time."""
    for e in range(0, CENTROIDS, 4):
        x0, x1, x2, x3 = codebook[e], codebook[e + 1], codebook[e + 2], codebook[e + 3]
        t0 = t1 = t2 = t3 = nothing(table)
        for j in range(codebook.shape[1]):
            b = load(columns, j)
            t0, t1 = times_plus(x0[j], b, t0), times_plus(x1[j], b, t1)
            t2, t3 = times_plus(x2[j], b, t2), times_plus(x3[j], b, t3)
        store(table, e, t0)
        store(table, e + 1, t1)
        store(table, e + 2, t2)
        store(table, e + 3, t3)


@register_jitable
def empty_table(codebook, table, result):  # type: ignore[no-untyped-def]
    """result = codebookᵀ table, from the sums of every centroid; four columns at a time."""
    size = codebook.shape[1]
    whole = size - size % 4
    for j in range(0, whole, 4):
        r0 = r1 = r2 = r3 = nothing(table)
        for e in range(CENTROIDS):
            x, t = codebook[e], load(table, e)
            r0, r1 = times_plus(x[j], t, r0), times_plus(x[j + 1], t, r1)
            r2, r3 = times_plus(x[j + 2], t, r2), times_plus(x[j + 3], t, r3)
        store(result, j, r0)
        store(result, j + 1, r1)
        store(result, j + 2, r2)
        store(result, j + 3, r3)
    for j in range(whole, size):
        r0 = nothing(table)
        for e in range(CENTROIDS):
            r0 = times_plus(codebook[e, j], load(table, e), r0)
        store(result, j, r0)


@register_jitable
def add_two(c0, c1, t0, t1, sums):  # type: ignore[no-untyped-def]
    for i in range(len(sums)):
        both = plus(load(t0, c0[i]), load(t1, c1[i]))
        store(sums, i, plus(load(sums, i), both))


@register_jitable
def add_one(c0, t0, sums):  # type: ignore[no-untyped-def]
    for i in range(len(sums)):
        store(sums, i, plus(load(sums, i), load(t0, c0[i])))


@register_jitable
def collect(c0, summands, t0):  # type: ignore[no-untyped-def]
    for i in range(len(summands)):
        store(t0, c0[i], plus(load(t0, c0[i]), load(summands, i)))


@kernel()
def decode(codes, codebooks, out):  # type: ignore[no-untyped-def]
    """out (R, d) = X."""
    size = codebooks.shape[2]
    for i in range(codes.shape[0]):
        row = out[i]
        for q in range(codes.shape[1]):
            x = codebooks[q, codes[i, q]]
            for j in range(size):
                row[q * size + j] = x[j]


@kernel()
def look_up(codes, table, out):  # type: ignore[no-untyped-def]
    """out[i] = Σ_q table[q, codes[i, q]]."""
    for i in range(codes.shape[0]):
        total = 0.0
        for q in range(codes.shape[1]):
            total += table[q, codes[i, q]]
        out[i] = total


def squares(codebooks: NDArray[Any]) -> NDArray[np.float64]:
    """‖centroid‖² of every part, (Q, 256)."""
    return np.einsum("qej,qej->qe", codebooks, codebooks, dtype=np.float64)
