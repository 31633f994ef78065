"""The curve of a fit that shows its models on its way: measured off the clock, stopped in time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..solvers.loop import Clock

THIN = 1.05
UNTIL = "by itself"  # nobody stopped it


class Budget(NamedTuple):
    """Seconds a rival may take for a fit: `factor` times slender's, within these bounds."""

    factor: float = 60.0
    least: float = 5.0
    most: float = 600.0

    def seconds(self, ours: float) -> float:
        return min(self.most, max(self.least, self.factor * ours))


class Stopwatch(Clock):
    """A clock that a callback inside the timed block can hold."""

    @contextmanager
    def held(self) -> Iterator[None]:
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()


class Recorder:
    """Measures the models that a fit shows, and says when to stop.

    `measure(model)` gives the figures of a point, an objective among them; `copy(model)` a model
    that stays as it is.  Measuring costs more than most solvers' steps, so a point is passed over
    unless it comes THIN times later than the last one measured.  Those passed over are kept until
    the next is measured: if that one is at the target, they are looked through for the first that
    is.
    """

    def __init__(
        self,
        measure: Callable[[Any], dict[str, float]],
        copy: Callable[[Any], Any],
        budget: float,
        target: float | None = None,
    ) -> None:
        self.measure, self.copy, self.budget, self.target = measure, copy, budget, target
        self.curve: list[dict[str, float]] = []
        self.passed_over: list[tuple[float, Any]] = []
        self.stopped = UNTIL

    def __call__(self, seconds: float, model: Any) -> bool:
        """A true answer means: enough, stop."""
        if self.curve and seconds < min(THIN * self.curve[-1]["seconds"], self.budget):
            self.passed_over.append((seconds, self.copy(model)))
            return False
        self.look(seconds, model)
        return self.stopped != UNTIL

    def finish(self) -> None:
        """The last point, where it was passed over."""
        if self.stopped == UNTIL and self.passed_over:
            self.look(*self.passed_over.pop())

    def look(self, seconds: float, model: Any) -> None:
        """A point of the curve, now."""
        point = self._point(seconds, model)
        if self.target is not None and point["objective"] <= self.target:
            self.stopped = "target"
            earlier = (self._point(*entry) for entry in self.passed_over)
            point = next((e for e in earlier if e["objective"] <= self.target), point)
        elif seconds >= self.budget:
            self.stopped = "budget"
        self.curve.append(point)
        self.passed_over.clear()

    def _point(self, seconds: float, model: Any) -> dict[str, float]:
        return {"seconds": seconds, **self.measure(model)}
