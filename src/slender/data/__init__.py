"""Examples: rows, classes and weights together, and one operation on all of them, `reduce`."""

from .examples import Examples, Part, Pass, Sample

__all__ = ["Examples", "Part", "Pass", "Sample"]
