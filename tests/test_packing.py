"""States as documents and arrays: what comes back is the same, bit for bit."""

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays, scalar_dtypes

from slender.solvers.packing import pack, restore


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass
class Box:
    content: Any
    others: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Fixed:
    content: Any


class Plain:
    def __init__(self, content):
        self.content = content


KINDS = (Pair, Box, Fixed, Plain)
NUMBERS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.builds(np.float32, st.floats(width=32)),
    st.builds(np.int64, st.integers(-(2**63), 2**63 - 1)),
)
DTYPES = st.sampled_from(["f4", "f8", "f2", "i8", "i4", "u1", "?"])
ARRAYS = arrays(DTYPES, array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
TREES = st.recursive(
    NUMBERS | ARRAYS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.integers() | st.text(), inner, max_size=3),
        st.builds(Pair, inner, inner),
        st.builds(Box, inner),
        st.builds(Fixed, inner),
        st.builds(Plain, inner),
    ),
    max_leaves=12,
)


def again(tree, fresh=None, kinds=KINDS):
    """Packed, written as JSON, and built."""
    document, found = pack(tree, kinds)
    copies = {name: np.array(array, order="C") for name, array in found.items()}
    return restore(fresh, json.loads(json.dumps(document)), copies, kinds)


def equal(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray | np.generic):
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if isinstance(a, float):
        return a.hex() == b.hex()
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict):
        return equal(list(a.items()), list(b.items()))
    return equal(vars(a), vars(b)) if hasattr(a, "__dict__") else a == b


@given(TREES)
def test_a_tree_comes_back_bit_for_bit(tree):
    assert equal(again(tree), tree)


@given(arrays(scalar_dtypes().filter(lambda of: of.kind in "mMcO"), 2))
def test_arrays_that_files_cannot_hold_are_refused(array):
    with pytest.raises(TypeError, match="cannot hold an array"):
        pack(array, ())


def test_what_occurs_twice_is_one_object_again():
    array, pair = np.arange(3.0), Pair(1, 2)
    tree = [array, Pair(array, pair), {0: pair}, np.arange(3.0)]
    document, found = pack(tree, KINDS)
    assert len(found) == 2
    first, second, third, other = restore(None, document, found, KINDS)
    assert first is second.a
    assert second.b is third[0]
    assert other is not first


def test_memory_order_is_kept():
    turned = np.arange(6.0).reshape(2, 3).T
    first, second = again([turned, turned.copy()])
    assert (first.flags.f_contiguous, first.flags.c_contiguous) == (True, False)
    assert (second.flags.f_contiguous, second.flags.c_contiguous) == (False, True)
    assert first.tolist() == second.tolist() == turned.tolist()


def test_what_is_there_is_changed_in_place():
    rng = np.random.default_rng(0)
    saved = Box(rng, [{"a": 1.0}, {"a": 2.0}])
    document, found = pack([saved, rng, Fixed(3)], KINDS)
    wanted = rng.random(4)
    fresh_rng, trace, fixed = np.random.default_rng(5), [], Fixed(1)
    fresh = [Box(fresh_rng, trace), fresh_rng, fixed]
    box = fresh[0]
    restore(fresh, document, found, KINDS)
    assert fresh[0] is box
    assert box.others is trace
    assert trace == [{"a": 1.0}, {"a": 2.0}]
    assert box.content is fresh_rng
    assert (fresh_rng.random(4) == wanted).all()
    assert (fixed.content, fresh[2].content) == (1, 3)  # settings that others hold stay as they are


def test_only_known_classes_are_packed_or_made():
    with pytest.raises(TypeError, match="cannot hold a Plain"):
        pack(Plain(1), (Pair,))
    with pytest.raises(TypeError, match="cannot hold a function"):
        pack(lambda: None, KINDS)
    with pytest.raises(KeyError):
        restore(None, {"is": "Popen", "has": {}}, {}, KINDS)
    with pytest.raises(TypeError, match="generator of its fit"):
        again([np.random.default_rng(0)])
