"""Rows on the host that are sent to a device chunk by chunk, because they do not fit there.

While the device works on a chunk, the next one is written to pinned memory by all cores (one alone
is slower than the bus) and copied to the device from there.  Two buffers take turns.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .base import Rows
from .bfloat import narrow_to_bfloat
from .subset import some_of
from .threads import each_part

BUFFERS = 2


class Streamed:
    """Rows of another store, in the memory or the files of this machine, for a device."""

    resident = False

    def __init__(self, rows: Rows, device: torch.device, half: str | None = None) -> None:
        """`half`: float16 or bfloat16, if it represents all numbers exactly."""
        self.rows, self.device, self.shape = rows, device, rows.shape
        self.stored = getattr(torch, half or rows.dtype.name)

    def block(self, lo: int, hi: int) -> Tensor:
        return self._read(self.rows, lo, hi).to(self.device)

    def gather(self, index: NDArray[np.intp]) -> Tensor:
        return self._tensor(self.rows.dense(index)).to(self.device)

    def chunks(
        self, index: NDArray[np.intp] | None, step: int
    ) -> Iterator[tuple[int, int, Tensor]]:
        rows = self.rows if index is None else some_of(self.rows, index)
        n = rows.shape[0]
        edges = [(lo, min(lo + step, n)) for lo in range(0, n, step)]
        if self.device.type != "cuda":
            for lo, hi in edges:
                yield lo, hi, self._read(rows, lo, hi)
            return
        yield from self._ahead(rows, edges, step)

    def where(self, i: int) -> str:
        return self.rows.where(i)

    def _ahead(
        self, rows: Rows, edges: list[tuple[int, int]], step: int
    ) -> Iterator[tuple[int, int, Tensor]]:
        """The chunks, each read and sent while the one before is in use.

        torch's allocator takes the memory of a tensor to be free for whatever the current stream
        does after the tensor is gone, and does not know of copies by the side stream.  So the side
        stream starts after what the memory was used for before, and the current one goes on after
        the last copy, also if nobody asks for the other chunks.
        """
        shape = min(step, rows.shape[0]), self.shape[1]
        with torch.cuda.device(self.device):  # of events and pinned memory
            host = [torch.empty(shape, dtype=self.stored, pin_memory=True) for _ in range(BUFFERS)]
            there = [torch.empty_like(each, device=self.device) for each in host]
            copied = [torch.cuda.Event() for _ in range(BUFFERS)]
            used = [torch.cuda.Event() for _ in range(BUFFERS)]
            side = torch.cuda.Stream(self.device)
            now = torch.cuda.current_stream(self.device)
        side.wait_stream(now)

        def send(k: int) -> None:
            (lo, hi), place = edges[k], k % BUFFERS
            copied[place].synchronize()  # the buffer's last content has been copied
            fill(rows, lo, hi, as_array(host[place][: hi - lo]))
            with torch.cuda.stream(side):
                side.wait_event(used[place])  # and was used
                there[place][: hi - lo].copy_(host[place][: hi - lo], non_blocking=True)
                copied[place].record(side)

        try:
            with ThreadPoolExecutor(1, "slender-send") as reader:
                following = reader.submit(send, 0)
                for k, (lo, hi) in enumerate(edges):
                    following.result()
                    if k + 1 < len(edges):
                        following = reader.submit(send, k + 1)
                    now.wait_event(copied[k % BUFFERS])
                    yield lo, hi, there[k % BUFFERS][: hi - lo]
                    used[k % BUFFERS].record(now)
        finally:  # the reader has ended: all copies have been ordered
            now.wait_stream(side)

    def _read(self, rows: Rows, lo: int, hi: int) -> Tensor:
        return self._tensor(rows.to_send(lo, hi))

    def _tensor(self, X: Any) -> Tensor:
        X = np.ascontiguousarray(X)
        X = X if X.flags.writeable else X.copy()  # of a memory map: torch would warn
        if X.dtype == np.uint16:  # the bits of bfloat16
            return torch.from_numpy(X.view(np.int16)).view(torch.bfloat16).to(self.stored)
        return torch.from_numpy(X).to(self.stored)


def as_array(X: Tensor) -> NDArray[Any]:
    """A tensor's memory as an array; that of bfloat16 as its bits."""
    if X.dtype == torch.bfloat16:
        return np.asarray(X.view(torch.int16).numpy()).view(np.uint16)
    return np.asarray(X.numpy())


def fill(rows: Rows, lo: int, hi: int, out: NDArray[Any]) -> None:
    """out = rows lo..hi; from memory by all cores, from a file as it is read.

    `out` has the dtype that the rows are sent in, or the bits of bfloat16.
    """

    def part(first: int, last: int) -> None:
        X = rows.to_send(lo + first, lo + last)
        narrow = out.dtype == np.uint16 and X.dtype != np.uint16  # some rows were widened
        out[first:last] = narrow_to_bfloat(X) if narrow else X

    if rows.on_disk:
        part(0, hi - lo)
    else:
        each_part(np.full(hi - lo, float(rows.shape[1])), part)
