"""python -m benchmarks.gpu_kernels: every Triton kernel against its twin in torch, and float64.

One line per kernel: the largest error of the kernel and of its twin against the twin in float64,
and whether the kernel passes; on a GPU also the times of both, and the bytes that the kernel reads
and writes per second.  Without a GPU, Triton interprets the kernels on the CPU, at a tiny size:
that tests what they compute, but not that they compile.  The exit code is 1 if a kernel fails.
"""

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
import typer

from slender.device import line, pairs, picking, ranks, row_sums, softmax, sweep
from slender.losses import CalibratedHinge, Logistic, MarginLoss, Squared
from slender.solvers.sweep import Iterate, Lengths

SOFTMAX_ERROR = 1e-6  # relative, of losses, doubts and residuals
SWEEP_ERROR = 1e-4  # relative to the largest number of V, after a pass in float32
REPEATS = 10
HALVES = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}  # rounding error of a half


class Size(NamedTuple):
    """Of the problems."""

    rows: int
    scores: int  # at most
    classes: tuple[int, ...]
    sums: tuple[int, int, int]  # rows, their numbers and their classes, of sums of rows
    pairs: tuple[int, int, int, int]  # doubtful ones, their rows, numbers of a row, and classes
    line: tuple[int, int]  # rows of a line search's sample, and classes
    examples: int  # of a sweep
    rank: int
    positives: int  # visits of a class are twice this


ON_GPU = Size(
    65536, 2**28, (10, 1000, 20_000), (65536, 1024, 1000), (128_000, 18_000, 1024, 1000),
    (2048, 1000), 1_200_000, 512, 1200,
)  # fmt: skip
INTERPRETED = Size(
    64, 2**16, (10, 1000, 9000), (200, 30, 7), (300, 40, 30, 7), (20, 100), 500, 40, 12
)
PICKED = 64_000  # pairs, at most
ROW_SUM_ERROR, CLASS_SUM_ERROR = 1e-6, 1e-12  # the latter are added in float64
ALGEBRA_ERROR = 1e-5  # of what is computed between two passes


class Verdict(NamedTuple):
    """What one line says."""

    kernel: str
    error: float
    of_twin: float
    allowed: float
    seconds: float | None = None
    of_twin_seconds: float | None = None
    moved: int = 0  # bytes

    @property
    def passed(self) -> bool:
        return self.error <= self.allowed  # not if it is NaN

    def __str__(self) -> str:
        verdict = "pass" if self.passed else f"FAIL (allowed: {self.allowed:.1e})"
        line = f"{self.kernel}: error {self.error:.1e}, twin {self.of_twin:.1e}: {verdict}"
        if self.seconds is None or self.of_twin_seconds is None:
            return line
        rate = self.moved / self.seconds / 1e9
        times = f"{1e3 * self.seconds:.3f} ms, twin {1e3 * self.of_twin_seconds:.3f} ms"
        return f"{line}; {times}, {rate:,.0f} GB/s"


def seconds_of(work: Callable[[], Any]) -> float:
    """The least of some repeats, on a GPU."""
    found = []
    for _ in range(REPEATS + 2):
        torch.cuda.synchronize()
        start = perf_counter()
        work()
        torch.cuda.synchronize()
        found.append(perf_counter() - start)
    return min(found[2:])


# -- softmax_residuals -----------------------------------------------------------------------------


def scores(m: int, C: int, device: str) -> tuple[Any, ...]:
    random = torch.Generator(device).manual_seed(0)
    # multiples of 1/64, so that float32 rounds neither s + b nor s - max s
    S = (256 * torch.randn(m, C, generator=random, device=device)).round() / 64
    b = (64 * torch.randn(C, generator=random, device=device)).round() / 64
    y = torch.randint(C, (m,), generator=random, device=device)
    S[torch.arange(m // 2), y[: m // 2]] += 30.0  # rows that are almost certain
    w = torch.rand(m, generator=random, device=device) + 0.5
    return S, b, y, w


def softmax_verdict(m: int, C: int, half: Any, pieces: int, device: str) -> Verdict:
    S, b, y, w = scores(m, C, device)
    out = [torch.empty_like(S, dtype=half) for _ in range(pieces)] or None
    true = S.double()
    loss_, doubt_, *_ = softmax.twin(true, b.double(), y, w.double())
    unit = softmax.half_unit(out)
    rounding = HALVES[half] ** pieces if out else 0.0

    def error(work: Callable[..., Any]) -> float:
        R = S.clone()
        loss, doubt, *_ = work(R, b, y, w, out)
        if out:
            R = sum(piece.double() / unit**k for k, piece in enumerate(out))
        size = w.double() if out else true.abs().amax(1)  # halves have few small numbers
        of_row = (R.double() - true).abs().amax(1) / size
        relative = [(f.double() / t - 1.0).abs().max() for f, t in ((loss, loss_), (doubt, doubt_))]
        return max(float(of_row.max()) - rounding, *map(float, relative))

    def by_twin(R: Any, b: Any, y: Any, w: Any, out: Any) -> tuple[Any, Any]:
        found = softmax.twin(R, b, y, w)
        softmax.split(R, out or ())
        return found

    name = f"softmax_residuals, {m:,} x {C:,}, " + (
        f"{pieces} x {str(half).removeprefix('torch.')}" if out else "in place"
    )
    found = Verdict(name, error(softmax.softmax_residuals), error(by_twin), SOFTMAX_ERROR)
    if device != "cuda":
        return found
    moved = S.nbytes + (sum(piece.nbytes for piece in out) if out else S.nbytes)
    times = [
        seconds_of(lambda f=f: f(S, b, y, w, out)) for f in (softmax.softmax_residuals, by_twin)
    ]
    return found._replace(seconds=times[0], of_twin_seconds=times[1], moved=moved)


# -- sums of rows, and doubtful pairs --------------------------------------------------------------


def compared(
    name: str,
    work: tuple[Callable[[], Any], Callable[[], Any]],
    true: Any,
    allowed: float,
    moved: int,
    device: str,
) -> Verdict:
    """The errors of a kernel and of its twin relative to the largest true number; their times."""
    largest = true.abs().max()
    errors = [float((each().double() - true).abs().max() / largest) for each in work]
    found = Verdict(name, *errors, allowed)
    if device != "cuda":
        return found
    seconds, of_twin = map(seconds_of, work)
    return found._replace(seconds=seconds, of_twin_seconds=of_twin, moved=moved)


def row_sum_verdicts(m: int, d: int, C: int, half: Any, device: str) -> Iterator[Verdict]:
    random = torch.Generator(device).manual_seed(0)
    X = torch.randn(m, d, generator=random, device=device).to(half)
    w = torch.rand(m, generator=random, device=device, dtype=torch.float64)
    y = torch.randint(C, (m,), generator=random, device=device)
    shape = f"{m:,} x {d:,}, {str(half).removeprefix('torch.')}"

    def moments(fused: bool) -> Any:
        work = row_sums.moments if fused else row_sums.moments_twin
        return torch.cat([each.double() for each in work(X, w, torch.float32)])

    def by_class(fused: bool) -> Any:
        out = w.new_zeros((C, d))
        (row_sums.add_by_class if fused else row_sums.add_by_class_twin)(X, w, y, out)
        return out

    exact = torch.cat([w @ X.double(), X.double().square().sum(1)])
    sums = w.new_zeros((C, d)).index_add_(0, y, X.double() * w[:, None])
    for name, work, true, allowed in (
        (f"moments, {shape}", moments, exact, ROW_SUM_ERROR),
        (f"add_by_class, {shape}, {C:,} classes", by_class, sums, CLASS_SUM_ERROR),
    ):
        both = partial(work, True), partial(work, False)
        yield compared(name, both, true, allowed, X.nbytes, device)


def pick_verdict(m: int, C: int, device: str) -> Verdict:
    random = torch.Generator(device).manual_seed(0)
    w, sizes = (torch.rand(m, generator=random, device=device) + 0.5 for _ in range(2))
    scale = torch.rand(C, generator=random, device=device) + 0.5
    R = (w[:, None] * torch.rand(m, C, generator=random, device=device) ** 9 / 2).half()
    h = softmax.curvature(R.double(), w.double())
    score = h * sizes.double().square()[:, None] * scale.double()
    wanted = min(PICKED, score.numel() // 4)
    true, _ = score.reshape(-1).topk(wanted)
    least = 0.999 * true[-1].float()

    def best(work: Callable[..., Any]) -> Any:
        room = picking.Room(4 * wanted, w)
        work(R, w, sizes, scale, least, 0, room)
        return room.pairs.score.topk(wanted).values

    both = partial(best, picking.pick), partial(best, picking.twin)
    return compared(f"pick, {m:,} x {C:,}", both, true, SOFTMAX_ERROR, R.nbytes, device)


# -- between two passes, and on held-out rows ------------------------------------------------------


def dots_verdict(k: int, u: int, d: int, C: int, device: str) -> Verdict:
    random = torch.Generator(device).manual_seed(0)
    X, V = (torch.randn(rows, d, generator=random, device=device) for rows in (u, C))
    place = torch.randint(u, (k,), generator=random, device=device)
    of = torch.randint(C, (k,), generator=random, device=device).sort().values
    true = pairs.twin(X.double(), place, V.double(), of)
    both = (lambda: pairs.dots(X, place, V, of)), (lambda: pairs.twin(X, place, V, of))
    moved = 2 * k * d * X.element_size()
    return compared(f"dots, {k:,} pairs x {d:,}", both, true, ALGEBRA_ERROR, moved, device)


def ranks_verdict(m: int, C: int, device: str) -> Verdict:
    S, b, y, _ = scores(m, C, device)
    true = torch.cat(ranks.twin(S.double(), b.double(), y, 1.0))

    def found(work: Callable[..., Any]) -> Any:
        return torch.cat([each.double() for each in work(S.clone(), b, y, 1.0)])

    both = partial(found, ranks.ranks_and_losses), partial(found, ranks.twin)
    return compared(f"ranks_and_losses, {m:,} x {C:,}", both, true, ALGEBRA_ERROR, S.nbytes, device)


def line_verdict(m: int, K: int, device: str) -> Verdict:
    random = torch.Generator(device).manual_seed(0)
    s, d = (torch.randn(m, K, generator=random, device=device) for _ in range(2))
    rest, w = s.new_zeros((0, 3)), torch.rand(m, generator=random, device=device)
    true = line.twin(s.double(), d.double(), rest.double(), w.double(), 0.7)
    given = s, d, rest, w, 0.7
    both = (lambda: line.line_moments(*given)), (lambda: line.twin(*given))
    moved = s.nbytes + d.nbytes
    return compared(f"line_moments, {m:,} x {K:,}", both, true, ALGEBRA_ERROR, moved, device)


# -- sweep_classes ---------------------------------------------------------------------------------


def sweep_verdict(loss: MarginLoss, size: Size, C: int, timed: bool, device: str) -> Verdict:
    random = torch.Generator(device).manual_seed(0)
    n, k, M = size.examples, size.rank, size.positives
    Z = torch.randn(n, k, generator=random, device=device) / k**0.5
    y = torch.randint(C, (n,), generator=random, device=device, dtype=torch.int32)
    ones, of_classes = Z.new_ones(n), torch.ones(C, dtype=torch.float64, device=device)
    data = sweep.SweepData(Z, y, 0, ones, of_classes, of_classes, ones)
    counts = torch.randint(M, 2 * M, (C,), generator=random, device=device)
    last = counts.cumsum(0)
    index = torch.randint(n, (int(last[-1]),), generator=random, device=device, dtype=torch.int32)
    visits = sweep.TensorVisits(index, last - counts, last, int(counts.max()))
    every = torch.full((C,), 31, device=device)
    step = Lengths(0.5, 0.0, 1.0, 0.0, 0.5, every, 7, every * 0 - 1, data.cap)

    def start(dtype: Any) -> Iterate:
        wide, whole = torch.float64, torch.int64
        kinds = [dtype, wide, wide, dtype, wide, whole, whole, wide, whole, wide, whole]
        shapes = [(C, k) if name in "VA" else (C,) for name in Iterate._fields]
        made = [torch.zeros(s, dtype=t, device=device) for s, t in zip(shapes, kinds, strict=True)]
        made[1] += 1.0
        return Iterate(*made)

    def after(work: Callable[..., Any], dtype: Any) -> Iterate:
        state = start(dtype)
        wide = data._replace(Z=Z.to(dtype), example=ones.to(dtype), cap=ones.to(dtype))
        work(loss, wide, visits, step, state)
        return state

    name = f"sweep_classes, {type(loss).__name__}, {len(index):,} visits, {C:,} x {k}"
    if timed:  # the twin takes seconds for so many visits
        state = start(torch.float32)
        seconds = seconds_of(lambda: sweep.sweep_classes(loss, data, visits, step, state))
        finite = 0.0 if bool(state.V.isfinite().all()) else np.nan
        moved = len(index) * k * Z.element_size()
        return Verdict(name, finite, np.nan, SWEEP_ERROR, seconds, np.nan, moved)
    true = after(sweep.twin, torch.float64)

    def error(found: Iterate) -> float:
        pairs = [(found.V, true.V), (found.A, true.A), (found.b, true.b), (found.total, true.total)]
        return max(float((f.double() - t).abs().max() / t.abs().max()) for f, t in pairs)

    errors = [error(after(work, torch.float32)) for work in (sweep.sweep_classes, sweep.twin)]
    return Verdict(name, *errors, SWEEP_ERROR)


def verdicts(size: Size, device: str) -> Iterator[Verdict]:
    for C in size.classes:
        m = max(1, min(size.rows, size.scores // C))
        yield softmax_verdict(m, C, None, 0, device)
        yield pick_verdict(m, C, device)
        yield ranks_verdict(m, C, device)
        for half, pieces in ((torch.float16, 1), (torch.float16, 2), (torch.bfloat16, 3)):
            if half is torch.bfloat16 and device != "cuda":
                continue  # Triton's interpreter does not round to bfloat16
            yield softmax_verdict(m, C, half, pieces, device)
    for half in (torch.float16, torch.float32):
        yield from row_sum_verdicts(*size.sums, half, device)
    yield dots_verdict(*size.pairs, device)
    yield line_verdict(*size.line, device)
    small = size._replace(examples=500, positives=min(size.positives, 100))
    for loss in (Logistic(), CalibratedHinge(), Squared()):
        yield sweep_verdict(loss, small, 6, False, device)
    if device == "cuda":
        yield sweep_verdict(Logistic(), size, 1000, True, device)


def main() -> None:
    """Compare every Triton kernel with its twin in torch."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if find_spec("triton") is None:
        print("Triton is not installed, so there is no kernel to compare: pip install triton")
        sys.exit(1)
    if device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
        print("no GPU: Triton interprets the kernels on the CPU, at a tiny size")
    else:
        print(torch.cuda.get_device_name())
    found = []
    for verdict in verdicts(ON_GPU if device == "cuda" else INTERPRETED, device):
        print(verdict, flush=True)
        found.append(verdict.passed)
    failed = found.count(False)
    print(f"{failed} of {len(found)} fail" if failed else f"all {len(found)} pass")
    sys.exit(bool(failed))


if __name__ == "__main__":
    typer.run(main)
