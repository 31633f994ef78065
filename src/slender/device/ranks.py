"""The rank and the loss of each row's own class, from the scores of a chunk on the device."""

from typing import Any

from ..arrays import numbers
from .softmax import by_kernel


def ranks_and_losses(S: Any, b: Any, y: Any, temperature: float) -> tuple[Any, Any]:
    """How many classes have a larger score, (m,), and -ln softmax((S + b) / temperature)_y, (m,).

    Of equal scores the first class has the largest, as argmax has it.  S (m, C) and b (C,) have one
    dtype, y (m,) is an integer; S may be overwritten.
    """
    if S.shape[0] > 0 and S.stride(1) == 1 and by_kernel(S):
        from .ranks_kernel import launch  # noqa: PLC0415  (imports Triton)

        return launch(S, b, y, temperature)  # type: ignore[no-any-return]
    return twin(S, b, y, temperature)


def twin(S: Any, b: Any, y: Any, temperature: float) -> tuple[Any, Any]:
    """The same in plain torch."""
    S += b
    own = S.gather(1, y[:, None])
    earlier = numbers(S.shape[1], S) < y[:, None]
    rank = ((own < S) | ((own == S) & earlier)).sum(1)
    return rank, (S / temperature).logsumexp(1) - own[:, 0] / temperature
