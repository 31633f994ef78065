"""Moments of D x along a direction, over the rows of a sample on the device (linesearch.py)."""

from typing import Any

from .compiled import runs_triton

IN_REGISTERS = 8192  # classes of a row, at most: with more, the twin


def line_moments(s: Any, d: Any, rest: Any, w: Any, t: float) -> Any:
    """(Σ w E_p[d], Σ w Var_p[d]) with p = softmax(s + t d), over the rows, in float64.

    s and d (m, K); rest (m, 3) has ln Σ exp s, mean and variance of d of all other classes, which
    count together as one more column that varies in itself; (0, 3) if there are none.  w (m,).
    """
    if len(s) and s.element_size() == 4 and s.shape[1] <= IN_REGISTERS and runs_triton(s):
        from .line_kernel import launch  # noqa: PLC0415  (imports Triton)

        return launch(s, d, rest, w, t)
    return twin(s, d, rest, w, t)


def twin(s: Any, d: Any, rest: Any, w: Any, t: float) -> Any:
    """The same in plain torch."""
    import torch  # noqa: PLC0415

    s, within = s + t * d, None
    if len(rest):
        mass, mean, variance = rest.T
        s = torch.cat([s, (mass + t * mean + 0.5 * t * t * variance)[:, None]], dim=1)
        d = torch.cat([d, (mean + t * variance)[:, None]], dim=1)
        within = variance
    p = s.softmax(1)
    first = (p * d).sum(1)
    second = (p * (d - first[:, None]) ** 2).sum(1)
    if within is not None:
        second = second + p[:, -1] * within
    return torch.stack(
        [(w * first).sum(dtype=torch.float64), (w * second).sum(dtype=torch.float64)]
    )
