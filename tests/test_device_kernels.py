"""The kernels of slender.device: Triton's, interpreted on the CPU, and their twins in torch.

Both are compared with float64 or mpmath, and the pieces of half precision with their definition.
"""

import math
import os
import subprocess
import sys
import warnings
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from compiling import compiled
from interpreted import Interpreter

torch = pytest.importorskip("torch")
from slender.device import softmax_residuals  # noqa: E402
from slender.device.softmax import column_sums  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
HALVES = {"float16": 2.0**11, "bfloat16": 2.0**8}
mp.mp.dps = 60


def on_arrays(S, b, y, w, halves=None, pieces=0, padding=0, factor=None):
    """softmax_residuals of NumPy arrays: loss, doubt, residuals or pieces, and padding."""
    m, C = S.shape
    wide = torch.full((m, C + padding), -7.0, dtype=torch.from_numpy(S).dtype)
    wide[:, :C] = torch.from_numpy(S)
    given = [torch.from_numpy(a) for a in (b, y, w)]
    out = None
    if pieces:
        out = [
            torch.full((m, C + padding), -7.0, dtype=getattr(torch, halves)) for _ in range(pieces)
        ]
    loss, doubt, *_ = softmax_residuals(
        wide[:, :C],
        *given,
        [piece[:, :C] for piece in out] if out else None,
        None if factor is None else wide.new_tensor(factor),
    )
    written = [piece.to(torch.float64).numpy() for piece in (out or [wide])]
    return loss.numpy(), doubt.numpy(), [a[:, :C] for a in written], [a[:, C:] for a in written]


def uses_triton():
    from slender.device.compiled import runs_triton

    return runs_triton(torch.zeros(1))


def truth(S, b, y, w):
    """loss, doubt and residuals in float64, without differences of large numbers."""
    s = (S + b).astype(np.float64)
    loss, doubt, R = np.empty(len(s)), np.empty(len(s)), np.empty_like(s)
    for i in range(len(s)):
        top, s_y = s[i].max(), s[i, y[i]]
        e = np.exp(s[i] - top)
        others = math.fsum(np.delete(e, y[i]))
        everything = others + e[y[i]]
        loss[i] = math.log1p(others) if s_y == top else (top - s_y) + math.log(everything)
        doubt[i] = others / everything
        R[i] = w[i] * e / everything
        R[i, y[i]] = -w[i] * doubt[i]
    return loss, doubt, R


def drawn(m, C, seed=0, spread=3.0, dtype=np.float32):
    """Scores and intercepts whose sums and differences are exact in float32."""
    rng = np.random.default_rng(seed)
    S = (np.rint(256 * spread * rng.standard_normal((m, C))) / 256).astype(dtype)
    b = (np.rint(256 * rng.standard_normal(C)) / 256).astype(dtype)
    return S, b, rng.integers(C, size=m), rng.uniform(0.1, 2.0, m).astype(dtype)


def sure(m, C, gap, dtype=np.float32):
    """Rows whose own class is `gap` above all others, give or take one."""
    S, b, y, w = drawn(m, C, dtype=dtype, spread=0.3)
    S[np.arange(m), y] += dtype(gap)
    return S, b, y, w


def weighted(w):
    S, b, y, _ = drawn(len(w), 37)
    return S, b, y, np.array(w, np.float32)


CASES = {
    "one class": lambda: drawn(5, 1),
    "two classes": lambda: drawn(9, 2),
    "few classes, many rows": lambda: drawn(131, 10),
    "a power of two": lambda: drawn(6, 64),
    "not a power of two": lambda: drawn(6, 1000),
    "an odd number": lambda: drawn(4, 777),
    "as many as registers hold": lambda: drawn(2, 8192),
    "more than registers hold": lambda: drawn(3, 9001),
    "five blocks": lambda: drawn(2, 20_000, spread=1.0),
    "scores of 1e4": lambda: drawn(8, 50, spread=1e4),
    "long rows, scores of 1e4": lambda: drawn(2, 10_000, spread=1e4),
    "doubt of 1e-7": lambda: sure(8, 20, 18.0),
    "doubt of 1e-30": lambda: sure(8, 20, 70.0),
    "doubt of 1e-30, long rows": lambda: sure(2, 9001, 78.0),
    "doubt of 1e-1000": lambda: sure(4, 20, 2500.0),
    "surely wrong": lambda: sure(8, 20, -70.0),
    "equal scores": lambda: (np.zeros((4, 30), np.float32), np.zeros(30, np.float32),
                             np.arange(4), np.ones(4, np.float32)),
    "zero weights": lambda: weighted([0.0, 1.0, 0.0]),
    "huge weights": lambda: weighted([1e30, 1e36, 1e-30]),
}  # fmt: skip


@pytest.mark.parametrize("C", [100, 9001])
def test_scores_times_a_factor(call, C):
    S, b, y, w = drawn(3, C)
    plain = call(on_arrays, S, b, y, w)
    scaled = call(on_arrays, S * np.float32(2.0**-10), b, y, w, None, 0, 0, 2.0**10)
    for one, other in zip(plain[:2], scaled[:2], strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(plain[2], scaled[2])


@pytest.mark.parametrize("name", CASES)
def test_residuals(call, name):
    S, b, y, w = CASES[name]()
    loss, doubt, (R,), _ = call(on_arrays, S, b, y, w)
    loss_, doubt_, R_ = truth(S, b, y, w)
    np.testing.assert_allclose(loss, loss_, rtol=1e-6, atol=1e-36)
    np.testing.assert_allclose(doubt, doubt_, rtol=1e-6, atol=1e-36)
    np.testing.assert_array_less(np.abs(R - R_), 1e-6 * np.abs(R_) + 1e-36 * (1.0 + w[:, None]))


def test_a_doubt_of_1e_30_keeps_its_digits(call):
    """In float32 and in float64, against 60 digits."""
    for dtype, tolerance in ((np.float32, 1e-6), (np.float64, 1e-14)):
        S, b, y, w = sure(6, 15, 70.0, dtype)
        loss, doubt, (R,), _ = call(on_arrays, S, b, y, w)
        for i, s in enumerate(S + b):
            own = mp.mpf(float(s[y[i]]))
            others = sum(mp.exp(mp.mpf(float(v)) - own) for c, v in enumerate(s) if c != y[i])
            assert 1e-33 < others < 1e-28
            for found, exact in (
                (loss[i], mp.log1p(others)),
                (doubt[i], others / (1 + others)),
                (R[i, y[i]], -mp.mpf(float(w[i])) * others / (1 + others)),
            ):
                assert abs(found - exact) <= tolerance * abs(exact)


def sums_of(S, b, y, w, bend):
    """Scores of the own classes, and the sums of columns, added up over two chunks."""
    S, b, y, w = (torch.from_numpy(a) for a in (S.copy(), b, y, w))
    columns, first = column_sums(S, bend), len(S) - len(S) // 3
    scores = [
        softmax_residuals(S[rows], b, y[rows], w[rows], columns=columns).score
        for rows in (slice(first), slice(first, None))
    ]
    g, *a = columns.sum(0)
    return torch.cat(scores).numpy(), g.numpy(), a[0].numpy() if a else None


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("bend", [False, True])
def test_sums_of_columns(call, name, bend):
    S, b, y, w = CASES[name]()
    score, g, a = call(sums_of, S, b, y, w, bend)
    _, _, R = truth(S, b, y, w)
    np.testing.assert_array_equal(score, (S + b)[np.arange(len(y)), y])
    size = np.abs(R).sum(axis=0)
    np.testing.assert_array_less(np.abs(g - R.sum(axis=0)), 1e-6 * size + 1e-35 * (1 + w.sum()))
    assert (a is None) == (not bend)
    if bend:
        with np.errstate(divide="ignore", invalid="ignore"):
            p = np.where(w[:, None] > 0, np.abs(R) / w[:, None], 0.0)
        h = (w[:, None] * p * (1 - p)).sum(axis=0)
        np.testing.assert_array_less(np.abs(a - h), 1e-5 * size + 1e-35 * (1 + w.sum()))


def pairs_of(R, w, sizes, scale, least, first, room, halves):
    """The places in use, after the pairs of two parts of the rows were added."""
    from slender.device.picking import Room, pick

    R, w, sizes, scale = (torch.from_numpy(a) for a in (R, w, sizes, scale))
    R, found, half = R.half() if halves else R, Room(room, w), len(w) // 2
    for lo, hi in (0, half), (half, len(w)):
        rows = slice(lo, hi)
        pick(R[rows], w[rows], sizes[rows], scale, torch.tensor(least), first + lo, found)
    return [each[: found.filled].numpy() for each in found.pairs]


def pruned(scores, most):
    from slender.device.picking import Room

    room = Room(20, torch.zeros(1))
    assert float(room.least(most)) == 0.0
    room.pairs.score[: len(scores)] = torch.tensor(scores)
    room.pairs.place[: len(scores)] = torch.arange(len(scores))
    room.filled = len(scores)
    room.prune(most)
    return room


def test_a_room_keeps_the_best_pairs():
    room = pruned([0.5, 3.0, 1.0, 2.0, 0.1], 3)
    assert sorted(room.pairs.place[: room.filled].tolist()) == [1, 2, 3]
    assert float(room.least(3)) == 1.0
    assert not room.pairs.score[room.filled :].any()
    assert (room.filled, room.free) == (3, 17)
    assert pruned([0.5, 3.0], 3).filled == 2


@pytest.mark.parametrize(("m", "C"), [(50, 7), (6, 3000), (9, 2048), (3, 1)])
@pytest.mark.parametrize("halves", [False, True])
def test_pairs_above_a_score_are_picked(call, m, C, halves):
    rng = np.random.default_rng(0)
    w, sizes = rng.uniform(0.5, 1.0, m), rng.uniform(0.5, 2.0, m)
    R = 0.99 * w[:, None] * rng.uniform(-1, 1, (m, C)) ** 5
    scale = rng.uniform(0.5, 2.0, C)
    R, w, sizes, scale = (of.astype(np.float32) for of in (R, w, sizes, scale))
    R = R.astype(np.float16).astype(np.float32)
    h = np.abs(R) * (1 - np.abs(R) / w[:, None])
    value = h * sizes[:, None] ** 2 * scale
    for share in (0.0, 0.5, 0.99):
        least = np.float32(np.quantile(value, share))
        wanted = np.flatnonzero(value > least * (1 + 1e-6))
        score, place, r, of = call(pairs_of, R, w, sizes, scale, least, 5, m * C, halves)
        there = score > 0
        at = place[there] - 5 * C
        assert set(wanted) <= set(at)
        assert len(set(at)) == len(at) <= len(wanted) + 1
        np.testing.assert_allclose(score[there], value.ravel()[at], rtol=1e-5)
        np.testing.assert_array_equal(r[there], R.ravel()[at])
        np.testing.assert_allclose(of[there], h.ravel()[at], rtol=1e-5, atol=1e-7)
        few = call(pairs_of, R, w, sizes, scale, least, 0, 1 + len(wanted) // 2, halves)[0]
        assert len(few) == 1 + len(wanted) // 2  # no more than there is room for
        assert few.all()


@pytest.mark.parametrize("halves", HALVES)
@pytest.mark.parametrize("C", [37, 9000])
def test_pieces(call, halves, C):
    """Each piece is the rounding of what those before it leave, times u."""
    S, b, y, w = drawn(3, C)
    w *= np.float32(64.0)
    loss, doubt, (R,), _ = call(on_arrays, S, b, y, w)
    # Triton's interpreter does not round to bfloat16 but cuts digits off; a GPU rounds.
    cuts_off = halves == "bfloat16" and isinstance(call, Interpreter)
    for pieces in (1, 2, 3):
        again = call(on_arrays, S, b, y, w, halves, pieces)
        np.testing.assert_array_equal(again[0], loss)
        np.testing.assert_array_equal(again[1], doubt)
        rest, sum_of = R.copy(), 0.0
        for k, piece in enumerate(again[2]):
            rounded = torch.from_numpy(rest).to(torch.float32).to(getattr(torch, halves))
            if cuts_off:
                assert (np.abs(piece - rest) <= 2.0 / HALVES[halves] * np.abs(rest)).all()
            else:
                np.testing.assert_array_equal(piece, rounded.to(torch.float64).numpy())
            rest = (rest - piece) * HALVES[halves]
            sum_of = sum_of + piece / HALVES[halves] ** k
    assert np.abs(sum_of - R).max() <= (8.0 if cuts_off else 1.0) * 2.0**-24 * np.abs(R).max()


@pytest.mark.parametrize("pieces", [0, 2])
@pytest.mark.parametrize("C", [24, 25, 8200])
def test_rows_with_space_between(call, C, pieces):
    """Only the C classes of a row are written, whatever its stride."""
    S, b, y, w = drawn(5, C)
    plain = call(on_arrays, S, b, y, w, "float16", pieces)
    loss, doubt, written, padding = call(on_arrays, S, b, y, w, "float16", pieces, 8)
    np.testing.assert_array_equal(loss, plain[0])
    np.testing.assert_array_equal(doubt, plain[1])
    for found, expected, beside in zip(written, plain[2], padding, strict=True):
        np.testing.assert_array_equal(found, expected)
        assert (beside == -7.0).all()


@pytest.mark.parametrize("C", [20, 9000])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_not_finite_give_no_finite_loss(call, C, bad):
    S, b, y, w = drawn(4, C)
    S[1, (y[1] + 1) % C] = S[2, y[2]] = bad
    with np.errstate(invalid="ignore"):
        loss, doubt, *_ = call(on_arrays, S, b, y, w)
    np.testing.assert_array_equal(np.isnan(loss), [False, True, True, False])
    np.testing.assert_array_equal(np.isnan(doubt), [False, True, True, False])


def test_labels_of_32_bits_and_no_rows(call):
    S, b, y, w = drawn(4, 12)
    expected = call(on_arrays, S, b, y, w)
    found = call(on_arrays, S, b, y.astype(np.int32), w)
    np.testing.assert_array_equal(found[2][0], expected[2][0])
    loss, doubt, *_ = call(on_arrays, S[:0], b, y[:0], w[:0])
    assert loss.shape == doubt.shape == (0,)


def test_which_of_the_two_ran(interpreter):
    assert not uses_triton()
    assert interpreter(uses_triton)


# -- sums of rows ----------------------------------------------------------------------------------


def moments_of(X, w, half, stride):
    from slender.device.row_sums import moments

    wide = torch.zeros((len(X), X.shape[1] + stride), dtype=getattr(torch, half))
    rows = wide[:, : X.shape[1]]
    rows[:] = torch.from_numpy(X)
    return [each.numpy() for each in moments(rows, torch.from_numpy(w), torch.float32)]


def class_sums_of(X, w, y, C, half):
    from slender.device.row_sums import add_by_class

    rows, out = torch.from_numpy(X).to(getattr(torch, half)), torch.ones((C, X.shape[1])).double()
    add_by_class(rows, torch.from_numpy(w), torch.from_numpy(y), out)
    return out.numpy()


@pytest.mark.parametrize(("m", "d"), [(7, 5), (40, 130), (3, 1100), (1, 1), (2, 9000), (4, 0)])
@pytest.mark.parametrize("half", ["float16", "float32"])
def test_moments_of_rows(call, m, d, half):
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((m, d)).astype(half), rng.uniform(0, 1, m)
    total, squares = call(moments_of, X, w, half, 3)
    wide = X.astype(np.float64)
    np.testing.assert_allclose(total, w @ wide, rtol=1e-6, atol=1e-6 * np.abs(wide).max(initial=0))
    np.testing.assert_allclose(squares, (wide**2).sum(axis=1), rtol=1e-6)


@pytest.mark.parametrize(
    ("m", "d", "C"), [(5, 3, 2), (200, 33, 7), (150, 1500, 40), (64, 8, 1), (4, 0, 2)]
)
@pytest.mark.parametrize("half", ["float16", "float32", "float64"])
def test_sums_of_the_rows_of_classes(call, m, d, C, half):
    """In float64, which the rows of a class that cancel need."""
    rng = np.random.default_rng(1)
    X, w = 1e3 + rng.standard_normal((m, d)), rng.uniform(0, 1, m)
    X, y = X.astype(half), rng.integers(0, C, m)
    true = np.ones((C, d))
    np.add.at(true, y, w[:, None] * X.astype(np.float64))
    np.testing.assert_allclose(call(class_sums_of, X, w, y, C, half), true, rtol=1e-13)


# -- compiled for a GPU ----------------------------------------------------------------------------

POINTERS = {  # of sweep_kernel; others are of the dtype of the rows
    "y": "i32", "index": "i32", "first": "i64", "last": "i64", "every": "i64", "look": "i64",
    "m": "i64", "t": "i64", "seen": "i64", "looks": "i64",
    **dict.fromkeys(
        ["positive", "negative", "numbers", "scale", "b", "a", "total", "squares"], "fp64"
    ),
}  # fmt: skip


@pytest.mark.usefixtures("_compiler")
@pytest.mark.parametrize("pieces", [0, 2])
def test_the_softmax_compiles(pieces):
    """The interpreter accepts more than the compiler."""
    from slender.device import softmax_kernel

    half = "*fp16" if pieces else "*fp32"
    of = {"y": "*i64", "hi": half, "mid": half, "lo": half, "sums": "*fp64"}
    sizes = dict.fromkeys(["stride", "out_stride", "C", "m"], "i32")
    fixed = {"ALIGN": 8, "PIECES": pieces, "UNIT": 2048.0, "BEND": bool(pieces), "STAGES": 3}
    for kernel, shape in (
        (softmax_kernel.rows_kernel, {"ROWS": 1, "WIDTH": 1024, **fixed}),
        (softmax_kernel.rows_kernel, {"ROWS": 1, "WIDTH": 8192, **fixed}),
        (softmax_kernel.rows_kernel, {"ROWS": 64, "WIDTH": 16, **fixed}),
        (softmax_kernel.columns_kernel, {"WIDTH": 1024, **fixed}),
        (softmax_kernel.normalise_kernel, {"WIDTH": 4096, "BLOCKS": 4, "ALIGN": 8}),
    ):
        assert compiled(kernel, lambda name: {**of, **sizes}.get(name, "*fp32"), shape, 4)


@pytest.mark.usefixtures("_compiler")
@pytest.mark.parametrize("half", ["*fp16", "*bf16", "*fp32"])
def test_picking_compiles(half):
    from slender.device import picking_kernel

    of = {"R": half, "place": "*i64", "count": "*i32"}
    sizes = dict.fromkeys(["stride", "C", "m", "tiles", "first", "room"], "i32")
    for shape in ({"BLOCKS": 1, "ROWS": 2, "WIDTH": 1024}, {"BLOCKS": 9, "ROWS": 1, "WIDTH": 2048}):
        assert compiled(
            picking_kernel.pick_kernel, lambda name: {**of, **sizes}.get(name, "*fp32"), shape, 4
        )


@pytest.mark.usefixtures("_compiler")
@pytest.mark.parametrize("half", ["*fp16", "*bf16", "*fp32"])
def test_sums_of_rows_compile(half):
    from slender.device import row_sums_kernel as kernels

    of = {"X": half, "y": "*i64", "order": "*i64", "squares": "*fp32"}
    of |= dict.fromkeys(["stride", "d", "m"], "i32")
    for kernel, fixed in (
        (kernels.moments_kernel, {"ALIGN": 8, "WIDTH": 1024, "STAGES": 3}),
        (kernels.classes_kernel, {"ALIGN": 8, "WIDTH": 1024, "ROWS": 64}),
    ):
        assert compiled(kernel, lambda name: of.get(name, "*fp64"), fixed, 4)


@pytest.mark.usefixtures("_compiler")
@pytest.mark.parametrize(
    ("loss", "dtype", "flag"),
    [
        ("Logistic", "fp32", False),
        ("CalibratedHinge", "fp32", True),
        ("Squared", "fp64", True),
        ("Hinge", "fp32", True),
        ("Exponential", "fp64", False),
    ],
)
def test_the_sweep_compiles(loss, dtype, flag):
    from slender.device import sweep_kernel

    flags = dict.fromkeys(["INDICATOR", "AVERAGE"], flag)

    def types(name):
        if name in ("stride", "y_stride", "first_class", "report", "k"):
            return "i32"
        return f"*{POINTERS.get(name, dtype)}"

    fixed = {"LOSS": loss, "WIDTH": 64, **flags}
    assert compiled(sweep_kernel.sweep_kernel, types, fixed, 1)


def test_without_a_compiler_torch_does_the_work(monkeypatch):
    """Triton builds its link to the driver with a C compiler: asked for once, and said once."""
    triton = pytest.importorskip("triton")
    from slender.device import compiled as choice

    class Broken:
        def get_current_target(self):
            raise RuntimeError("Failed to find C compiler. Please specify via CC")

    class OnGpu:
        is_cuda = True

    monkeypatch.setattr(triton.runtime.driver, "_active", Broken())
    monkeypatch.setattr(choice, "_interpreted", lambda: False)
    choice._works.cache_clear()
    try:
        with pytest.warns(UserWarning, match=r"Triton does not work here \(Failed to find C comp"):
            assert not choice.runs_triton(OnGpu())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not choice.runs_triton(OnGpu())
    finally:
        choice._works.cache_clear()


# -- the benchmark ---------------------------------------------------------------------------------


def test_the_benchmark_of_kernels_passes():
    pytest.importorskip("triton")
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "benchmarks.gpu_kernels"]
    ran = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    *lines, last = ran.stdout.splitlines()
    assert last == "all 24 pass"
    counts = {
        "softmax_residuals": 9,
        "pick": 3,
        "ranks_and_losses": 3,
        "dots": 1,
        "line_moments": 1,
        "moments": 2,
        "add_by_class": 2,
        "sweep_classes": 3,
    }
    for kernel, count in counts.items():
        assert sum(line.startswith(kernel) for line in lines) == count


def test_a_kernel_that_errs_fails_the_benchmark():
    from benchmarks.gpu_kernels import Verdict

    assert "error 1.0e-07, twin 1.0e-07: pass" in str(Verdict("x", 1e-7, 1e-7, 1e-6))
    assert "FAIL" in str(Verdict("x", 1e-5, 1e-7, 1e-6))
    assert not Verdict("x", np.nan, 1e-7, 1e-6).passed
