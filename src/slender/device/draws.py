"""Which examples each class visits in a pass, drawn on the device (on the host: sampling.py).

Class c visits all its n_c positives and M_c of its N_c negatives, drawn without replacement, in
random order; or every example.  To draw this on the host and send it takes longer than the pass.

Negatives are drawn for many classes at a time.  A class that needs many of its negatives lists all
of them; any other draws some more numbers than it needs, and drops repeated ones.  Of what is left,
M_c are chosen at random.  As no negative is treated differently from another, all sets of M_c of
them are equally likely.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .visits import TensorVisits

LISTED = 4  # a class that needs more than one in so many of its negatives lists all of them
MORE, LEAST = 6.0, 8  # standard deviations, and numbers, that are drawn beyond what is expected
GROUP = 2**22  # numbers drawn at a time, at most, unless a single class needs more: memory
KEY_BITS = 40  # of a random key; the class is in the bits above them
LAST_KEY = 2**KEY_BITS - 1  # the largest key


def positives_of(y: Tensor, first: int, n_classes: int, active: Tensor) -> Tensor:
    """Positions in `active` of the positives of each class, increasing; classes in order.

    y (n,) has the class of each example, y (n, C) is an indicator; class row 0 is class `first`.
    """
    if y.ndim == 2:
        return y[active][:, first : first + n_classes].T.nonzero()[:, 1]
    by_class = torch.sort(y[active], stable=True)
    ends = torch.searchsorted(
        by_class.values, by_class.values.new_tensor([first, first + n_classes])
    )
    lo, hi = ends.tolist()
    return by_class.indices[lo:hi]


@dataclass(frozen=True)
class TensorDraws:
    """For the examples `active`; a position is a place in `active`."""

    active: Tensor  # (n,)
    positives: Tensor  # see positives_of
    n_positives: NDArray[np.intp]  # (C,) n_c
    n_drawn: NDArray[np.intp] | None  # (C,) M_c; None: every class visits all examples

    def visits(self, rng: np.random.Generator) -> TensorVisits:
        """Those of a new pass."""
        random = torch.Generator(self.active.device)
        random.manual_seed(int(rng.integers(2**63)))
        n, C = len(self.active), len(self.n_positives)
        if self.n_drawn is None:
            order = torch.randperm(n, generator=random, device=self.active.device)
            first = order.new_zeros(C)
            return TensorVisits(self.active[order], first, first + n, n)
        counts = self.n_positives + self.n_drawn
        ptr = np.concatenate([[0], np.cumsum(counts)])
        index = self.active.new_empty(int(ptr[-1]), dtype=torch.int32)
        for group in self._groups:
            index[ptr[group.lo] : ptr[group.hi]] = self._drawn(group, random)
        first, last = self.active.new_tensor(ptr[:-1]), self.active.new_tensor(ptr[1:])
        return TensorVisits(index, first, last, int(counts.max(initial=0)))

    @cached_property
    def _groups(self) -> "list[_Group]":
        assert self.n_drawn is not None
        n, M = len(self.active), self.n_drawn
        N = n - self.n_positives
        share = M * M / np.maximum(N, 1)  # more than the number of repeated ones
        tries = np.ceil(M + share + MORE * np.sqrt(share) + LEAST).astype(np.intp)
        tries = np.where(LISTED * M > N, N, tries)
        ends = np.concatenate([[0], np.cumsum(tries)])
        groups, lo = [], 0
        while lo < len(M):
            hi = max(lo + 1, int(np.searchsorted(ends, ends[lo] + GROUP, side="right")) - 1)
            groups.append(_Group(lo, hi, *(of[lo:hi] for of in (self.n_positives, M, N, tries))))
            lo = hi
        return groups

    def _drawn(self, group: "_Group", random: torch.Generator) -> Tensor:
        """The examples that the classes of a group visit, class by class.

        What each step needs is dropped at its end: this is when a fit needs most memory.
        """
        table, order = self._table(group), None
        while order is None:
            position = self._tried(table, random)
            order = self._chosen(table, position, random)
        negatives = position[order] - table.chosen * len(self.active)
        del position, order
        visited = torch.cat([table.positives, negatives]).int()
        del negatives
        order = torch.argsort(_keys((table.mine, table.chosen), random))
        return self.active[visited[order].long()]

    def _tried(self, table: "_Table", random: torch.Generator) -> Tensor:
        """Positions of negatives of each class, some of them repeated, increasing.

        The class times n is added to a position.
        """
        n, owner = len(self.active), table.owner
        uniform = torch.rand(len(owner), generator=random, device=owner.device, dtype=torch.float64)
        j = uniform.mul_(table.N).long().minimum(table.N - 1)
        del uniform
        j = table.number.where(table.listed, j)
        # from the j-th negative to its position: skip the positives that come before it
        j += torch.searchsorted(table.before, owner * (n + 1) + j, right=True)
        j -= table.offset
        return j.add_(owner * n).sort().values

    def _chosen(self, table: "_Table", position: Tensor, random: torch.Generator) -> Tensor | None:
        """Places of as many different ones as a class needs, at random; None if there are fewer."""
        again = torch.zeros_like(position, dtype=torch.bool)
        again[1:] = position[1:] == position[:-1]
        key = _keys((table.owner,), random)
        key |= torch.where(again, LAST_KEY, 0)  # repeated ones come last
        order = torch.argsort(key)[table.place]
        return None if bool(again[order].any()) else order

    def _table(self, group: "_Group") -> "_Table":
        """What is the same in every pass: kept if there is one group, whose numbers fit."""
        if len(self._groups) > 1:
            return self._tabulated(group)
        return self._only

    @cached_property
    def _only(self) -> "_Table":
        return self._tabulated(self._groups[0])

    def _tabulated(self, group: "_Group") -> "_Table":
        n, device = len(self.active), self.active.device

        def there(values: NDArray[Any]) -> Tensor:
            return torch.as_tensor(values, device=device)

        start = int(self.n_positives[: group.lo].sum())
        positives = self.positives[start : start + int(group.n_positives.sum())]
        mine, rank = _numbered(group.n_positives, device)
        owner, number = _numbered(group.tries, device)
        chosen, place = _numbered(group.M, device)
        earlier = np.cumsum(group.n_positives) - group.n_positives
        return _Table(
            positives,
            mine,
            before=mine * (n + 1) + positives - rank,
            owner=owner,
            number=number.int(),
            N=there(group.N.astype(np.int32))[owner],
            listed=there(group.tries == group.N)[owner],
            offset=there(earlier.astype(np.int32))[owner],
            chosen=chosen,
            place=place + there(np.cumsum(group.tries) - group.tries)[chosen],
        )


def _keys(owners: Sequence[Tensor], random: torch.Generator) -> Tensor:
    """Keys that bring the numbers of each class into random order."""
    total = sum(map(len, owners))
    keys = torch.randint(LAST_KEY, (total,), generator=random, device=owners[0].device)
    for mine, owner in zip(keys.split([len(each) for each in owners]), owners, strict=True):
        mine |= owner << KEY_BITS
    return keys


class _Table(NamedTuple):
    """Of a group: its positives, then the negatives that are tried, then those that are chosen."""

    positives: Tensor
    mine: Tensor  # the class of each positive,
    before: Tensor  # and the negatives before it
    owner: Tensor  # the class of each negative that is tried,
    number: Tensor  # its number in its class,
    N: Tensor  # of how many,
    listed: Tensor  # are all of them tried?
    offset: Tensor  # the positives of the classes before it
    chosen: Tensor  # the class of each negative that is chosen,
    place: Tensor  # and its place among those tried


@dataclass(frozen=True)
class _Group:
    """Classes lo, ..., hi - 1: numbers of their positives, and what to draw of the negatives."""

    lo: int
    hi: int
    n_positives: NDArray[np.intp]
    M: NDArray[np.intp]
    N: NDArray[np.intp]
    tries: NDArray[np.intp]  # how many are listed, or drawn


def _numbered(counts: NDArray[np.intp], device: Any) -> tuple[Tensor, Tensor]:
    """For counts[c] things of each class c: the class of each, and its number in its class."""
    total = int(counts.sum())
    each = torch.as_tensor(counts, device=device)
    owner = torch.repeat_interleave(
        torch.arange(len(counts), device=device), each, output_size=total
    )
    return owner, torch.arange(total, device=device) - (each.cumsum(0) - each)[owner]
