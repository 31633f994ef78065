"""Rows and labels from many kinds of files, read a chunk at a time.

finding.py    which files a path, a pattern or a folder stands for
formats.py    the formats, by suffix; each has a file of its own (base.py says what it needs)
store.py      RowStore: the rows of all files as one matrix
opening.py    open_rows
"""

from .opening import open_rows
from .store import RowStore

__all__ = ["RowStore", "open_rows"]
