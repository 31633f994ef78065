"""Rows of one array, whose pages are read ahead and released if a file is mapped there."""

from abc import abstractmethod
from typing import Any

from numpy.typing import NDArray

from .ahead import METER
from .base import Rows
from .mapped import mapped_pages


class PagedRows(Rows):
    """A store whose rows are those of the array `stored`."""

    def __init__(self, stored: NDArray[Any]) -> None:
        self.stored = stored
        self._pages = mapped_pages(stored)

    @abstractmethod
    def like(self, stored: NDArray[Any]) -> "PagedRows":
        """The same store of other rows."""

    def part(self, lo: int, hi: int) -> "PagedRows":
        part = self.like(self.stored[lo:hi])
        if self.on_disk:
            METER.add(part.stored.nbytes)
            part.will_need()
        return part

    def will_need(self) -> None:
        if self._pages is not None:
            self._pages.will_need()

    @property
    def on_disk(self) -> bool:
        return self._pages is not None

    @property
    def stored_row_bytes(self) -> int:
        return self.stored.shape[1] * self.stored.dtype.itemsize

    def release(self) -> None:
        if self._pages is not None:
            self._pages.give_back()
