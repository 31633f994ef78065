"""Examples: rows, classes and weights together, and one operation on all of them, `reduce`."""

from .examples import Examples, Part, Pass, Sample, examples_of

__all__ = ["Examples", "Part", "Pass", "Sample", "examples_of"]
