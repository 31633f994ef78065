"""Every kind of block equals the dense array of its rows, method by method."""

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from naive_codes import coded as codes_of_rows
from naive_codes import quarters
from slender.rows import Block, CodeRows, as_rows, stack
from slender.rows.codes import CodeBlock
from slender.rows.csr import CSRBlock
from slender.rows.dense import DenseBlock

N, D = 50, 15
same = np.testing.assert_array_equal  # sums and products of quarters are exact


def rows_of(dtype):
    X = quarters(0, N, D, dtype=dtype)
    X[np.random.default_rng(1).random((N, D)) < 0.6] = 0
    X[5] = 0
    return X


def dense(dtype):
    X = rows_of(dtype)
    return DenseBlock(X), X


def strided(dtype):
    X = rows_of(dtype)
    return DenseBlock(np.repeat(X, 2, axis=1)[:, ::2]), X


def csr(dtype):
    X = rows_of(dtype)
    return CSRBlock(sparse.csr_array(X)), X


def codes(dtype):
    numbers, books, X = codes_of_rows(N, dtype=dtype)
    return CodeBlock(numbers, books), X


def codes_times(dtype):
    numbers, books, X = codes_of_rows(N, dtype=dtype)
    factor = quarters(3, N, dtype=dtype)
    return CodeBlock(numbers, books, factor), X * factor[:, None]


KINDS = [dense, strided, csr, codes, codes_times]
DTYPES = [np.float32, np.float64]


@pytest.fixture(params=KINDS, ids=lambda make: make.__name__)
def make(request):
    return request.param


@pytest.fixture(params=DTYPES, ids=lambda dtype: dtype.__name__)
def pair(request, make):
    return make(request.param)


def equal(block, X):
    """The same rows in the same dtype, whoever looks."""
    assert isinstance(block, Block)
    assert block.shape == X.shape
    assert block.dtype == X.dtype
    same(block.toarray(), X)
    assert block.toarray().dtype == X.dtype
    same(block @ np.eye(D, dtype=X.dtype), X)


def test_every_kind_is_tried_and_has_the_whole_protocol():
    # Blocks of tensors are there once somebody has imported torch; test_tensors.py has their tests.
    kinds = {kind for kind in Block.__subclasses__() if kind.__module__ != "slender.rows.tensor"}
    assert {type(make(np.float64)[0]) for make in KINDS} == kinds
    for kind in kinds:
        assert not inspect.isabstract(kind)
        own = {name for name in vars(kind) if name[0] != "_"} - set(kind.__slots__)
        assert own <= set(dir(Block)), f"{kind.__name__} has more than the others"


def test_products(pair):
    block, X = pair
    B, G = quarters(7, D, 4, dtype=X.dtype), quarters(8, N, 7, dtype=X.dtype)
    for left, right in ((block @ B, X @ B), (G.T @ block, G.T @ X)):
        assert isinstance(left, np.ndarray)
        assert left.dtype == X.dtype
        same(left, right)
    same(block @ B[:, 0], X @ B[:, 0])
    same(G[:, 0] @ block, G[:, 0] @ X)
    out = np.full((N, 4), np.nan, X.dtype)
    block.product(B, out)
    same(out, X @ B)
    for rows in (1, 3, 7):  # of the scratch
        out = np.ones((7, D), X.dtype)
        block.add_product(G, out, np.empty((rows, D), X.dtype))
        same(out, 1 + G.T @ X)


def test_sums_by_class(pair):
    block, X = pair
    w, y = quarters(9, N), np.random.default_rng(2).integers(0, 6, N).astype(np.int32)
    wanted = (w[:, None] * (y[:, None] == np.arange(6))).T @ X.astype(np.float64)
    out = np.ones((6, D))
    block.add_by_class(w, y, out)
    same(out, 1 + wanted)
    some = np.zeros((2, D))
    block.add_by_class(w, y, some, 3)  # only these classes
    same(some, wanted[3:5])


def test_products_with_a_wider_operand_are_wide(pair):
    block, X = pair
    B = quarters(7, D, 4)
    assert (block @ B).dtype == (quarters(8, 2, N) @ block).dtype == np.float64
    same(block @ B, X.astype(np.float64) @ B)


def test_squares(pair):
    block, X = pair
    for squares, axis in ((block.row_squares(), 1), (block.column_squares(), 0)):
        assert squares.dtype == X.dtype
        same(squares, (X**2).sum(axis=axis))


@pytest.mark.parametrize("wide", [False, True])
def test_rows_and_columns_times_numbers(pair, wide):
    block, X = pair
    dtype = np.float64 if wide else X.dtype  # the block keeps its own
    factor, scale = quarters(5, N, dtype=dtype), quarters(6, D, dtype=dtype)
    wanted = (X * factor[:, None]).astype(X.dtype)
    equal(block.times_rows(factor), wanted)
    equal(block.scaled(scale), (X * scale).astype(X.dtype))
    equal(block.scaled(scale).times_rows(factor), (wanted * scale).astype(X.dtype))
    same(block.times_rows(factor).row_squares(), (wanted**2).sum(axis=1))
    equal(block, X)  # which stays as it is


@pytest.mark.parametrize("dtype", DTYPES)
def test_other_dtypes(pair, dtype):
    block, X = pair
    equal(block.astype(dtype), X.astype(dtype))


@given(st.sampled_from(KINDS), st.integers(0, N), st.integers(0, N))
def test_some_of_the_rows(make, lo, hi):
    block, X = make(np.float64)
    equal(block[lo:hi], X[lo:hi])


def test_what_others_read(pair):
    block, X = pair
    matrix, kernel = block.matrix(), block.kernel_rows()
    assert sparse.issparse(matrix) == block.is_sparse
    same(matrix.toarray() if block.is_sparse else matrix, X)
    assert block.nnz == (np.count_nonzero(X) if block.is_sparse else X.size)
    w = quarters(9, D, dtype=X.dtype)
    same([kernel.dot(i, w) for i in range(N)], X @ w)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", [DenseBlock, lambda X: CSRBlock(sparse.csr_array(X))])
def test_the_first_bad_number(form, value):
    X = quarters(0, N, D)
    X[20, 3] = X[20, 9] = X[31, 1] = value
    i, j, found = form(X).first_bad()
    assert (i, j) == (20, 3)
    same(found, value)
    assert form(X[:20]).first_bad() is None


def test_finite_numbers_are_not_bad(pair):
    assert pair[0].first_bad() is None
    large = DenseBlock(np.full((2, 3), 1e308))  # only their sum is not finite
    assert large.first_bad() is None


def test_a_dense_block_shares_the_memory_of_its_rows():
    X = rows_of(np.float32)
    block = as_rows(X).block(3, 20)
    for part in (block.toarray(), block[2:].toarray(), block.kernel_rows().data, block.matrix()):
        assert np.shares_memory(part, X)
    assert block.astype(np.float32).toarray() is block.toarray()


def test_stacked():
    X = rows_of(np.float64)
    equal_rows = CodeRows(*codes_of_rows()[:2]).block(0, N)
    top, bottom = DenseBlock(X[:3]), CSRBlock(sparse.csr_array(X[3:]))
    for blocks, is_sparse in (
        ([top, DenseBlock(X[3:])], False),
        ([CSRBlock(sparse.csr_array(X[:3])), bottom], True),
        ([top, bottom], True),
    ):
        rows = stack(blocks)
        assert rows.block(0, N).is_sparse == is_sparse
        equal(rows.block(0, N), X)
    equal(stack([equal_rows, top]).block(0, N + 3), np.vstack([equal_rows.toarray(), X[:3]]))
