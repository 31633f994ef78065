"""Rows of files are read by a thread of their own, while earlier ones are computed with.

So a pass over a file takes as long as reading or computing, whichever is longer, and not their sum.

    with reading(rows, cuts, users) as parts:
        part = parts.enter(k)       the rows lo..hi of cuts[k], as soon as they are read
        parts.leave(k)              once by each user

    for lo, hi, part in each_part_read(rows, cuts)       the same for a single user

At most AHEAD parts beyond the oldest one in use are read, which bounds the memory that they take.
"""

import threading
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

AHEAD = 2
PART_BYTES = 32 * 2**20  # of the rows as they are stored: a hundredth of a second of a fast disk

Cut = tuple[int, int]  # the first row, and the one after the last


class Meter:
    """The bytes of rows that this process, or workers for it, have read from files."""

    def __init__(self) -> None:
        self.total = 0
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        with self._lock:
            self.total += count


METER = Meter()


class Readable(Protocol):
    """What is needed of rows (base.Rows)."""

    @property
    def on_disk(self) -> bool:
        """Are the rows in a file?"""

    def part(self, lo: int, hi: int) -> Any:
        """Rows lo..hi, read from their file."""

    def release(self) -> None:
        """Release memory that only speeds up the next read."""


class Parts:
    """Parts of rows that need not be read."""

    def __init__(self, rows: Readable, cuts: Sequence[Cut]) -> None:
        self.rows, self.cuts = rows, cuts

    def __enter__(self) -> "Parts":
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Read no more."""

    def enter(self, k: int) -> Any:
        """Part k; None if it was not read before `stop`."""
        return self.rows.part(*self.cuts[k])

    def leave(self, k: int) -> None:
        """One user needs part k no longer."""


class ReadAhead(Parts):
    """Parts of rows, read one after the other for one or several threads."""

    def __init__(self, rows: Readable, cuts: Sequence[Cut], users: int = 1) -> None:
        super().__init__(rows, cuts)
        self.users = users
        self._parts: dict[int, Any] = {}  # or the exception of a part that could not be read
        self._left = [0] * len(cuts)  # by how many users
        self._done = 0  # parts that every user has left, and all before them
        self._stopped = False
        self._changed = threading.Condition()

    def __enter__(self) -> "ReadAhead":
        self._thread = threading.Thread(target=self._read, name="slender-read", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
        self._thread.join()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def enter(self, k: int) -> Any:
        """Part k, as soon as it is read; raises what reading it has raised."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or k in self._parts)
            part = self._parts.get(k)
        if isinstance(part, BaseException):
            raise part
        return part

    def leave(self, k: int) -> None:
        with self._changed:
            self._left[k] += 1
            last = self._left[k] == self.users
            part: Any = self._parts.pop(k) if last else None
            while self._done < len(self.cuts) and self._left[self._done] == self.users:
                self._done += 1
            self._changed.notify_all()
        if last:
            part.release()

    def _read(self) -> None:
        for k, cut in enumerate(self.cuts):
            with self._changed:
                while not self._stopped and k - self._done > AHEAD:
                    self._changed.wait()
                if self._stopped:
                    return
            try:
                part = self.rows.part(*cut)
            except BaseException as error:  # for the thread that needs this part
                part = error
            with self._changed:
                self._parts[k] = part
                self._changed.notify_all()


def reading(rows: Readable, cuts: Sequence[Cut], users: int = 1) -> Parts:
    """The parts of rows, read ahead if they are in a file."""
    return ReadAhead(rows, cuts, users) if rows.on_disk else Parts(rows, cuts)


def each_part_read(rows: Readable, cuts: Sequence[Cut]) -> Iterator[tuple[int, int, Any]]:
    """(lo, hi, rows lo..hi) for all cuts."""
    with reading(rows, cuts) as parts:
        for k, (lo, hi) in enumerate(cuts):
            yield lo, hi, parts.enter(k)
            parts.leave(k)
