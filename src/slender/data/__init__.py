"""Everything of length n together: rows, classes, weights; and one verb, `reduce`."""

from .examples import Examples, Part, Pass, Sample

__all__ = ["Examples", "Part", "Pass", "Sample"]
