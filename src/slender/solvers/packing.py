"""A solver's state as one JSON document and a list of arrays, and back, bit for bit.

    document, arrays = pack(tree, kinds)
    restore(fresh, document, arrays, kinds)

A tree consists of None, flags, numbers, strings, arrays, dtypes, random generators, tuples, lists,
dicts, and objects of the classes in `kinds` (NamedTuples, dataclasses, and plain classes whose
attributes are such things).  A document names only classes of `kinds`: reading one imports nothing
and runs nothing.  What occurs twice in a tree is packed once, and is one object again afterwards.

`restore` changes the state of a fit that has just begun to the packed one.  Lists, dicts, mutable
dataclasses and generators that are already there are changed in place, since others hold them too:
the trace, the one generator of a fit, the count of readings of the rows.  A generator must be there
already: a new one would not be that of the fit.

Arrays keep their memory order (C or Fortran), because BLAS may round the products of the other one
differently.  A tensor is packed as an array with the name of its device; it is put where those of
the fit that has just begun are, which may be another GPU.
"""

from collections.abc import Iterable
from dataclasses import is_dataclass
from math import isfinite
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..arrays import is_tensor, to_numpy

Arrays = dict[str, NDArray[Any]]
Kinds = Iterable[type]
STORED = "biuf"  # kinds of dtypes that a file can hold
WHOLE = (bool, int, str, type(None))  # JSON holds them as they are


def pack(tree: Any, kinds: Kinds) -> tuple[Any, Arrays]:
    """The document of a tree, and its arrays, which are not copied."""
    packer = _Packer(kinds)
    return packer.node(tree), packer.arrays


def restore(fresh: Any, document: Any, arrays: Arrays, kinds: Kinds) -> Any:
    """The packed tree; what is in `fresh` at the same place is changed in place if possible."""
    return _Reader(kinds, arrays, _device_of(fresh)).build(document, fresh)


class _Packer:
    def __init__(self, kinds: Kinds) -> None:
        self.names = {kind: kind.__name__ for kind in kinds}
        self.arrays: Arrays = {}
        self.seen: dict[int, int] = {}  # id -> number of what was packed already
        self.alive: list[Any] = []  # an id is unique only while its object exists

    def node(self, of: Any) -> Any:
        if type(of) in WHOLE or (type(of) is float and isfinite(of)):
            return of
        if isinstance(of, float | np.generic):
            as_array = np.asarray(of)
            kind = "float" if type(of) is float else "scalar"
            return {kind: as_array.dtype.str, "bytes": as_array.tobytes().hex()}
        if isinstance(of, np.dtype):
            return {"dtype": of.str}
        if type(of) is tuple:
            return {"tuple": [self.node(part) for part in of]}
        if id(of) not in self.seen:
            self.seen[id(of)] = len(self.alive)
            self.alive.append(of)
            return self._new(of)
        return {"same": self.seen[id(of)]}

    def _new(self, of: Any) -> Any:
        """Something that may occur again."""
        if type(of) is list:
            return {"list": [self.node(part) for part in of]}
        if type(of) is dict:
            return {"dict": [[self.node(key), self.node(value)] for key, value in of.items()]}
        if isinstance(of, np.ndarray):
            return self._array(np.asarray(of))
        if is_tensor(of):
            return {"tensor": str(of.device), "of": self._array(to_numpy(of))}
        if isinstance(of, np.random.Generator):
            return {"generator": self.node(of.bit_generator.state)}
        if type(of) in self.names:
            values = _values(of)
            return {
                "is": self.names[type(of)],
                "has": {name: self.node(value) for name, value in values.items()},
            }
        raise TypeError(
            f"a checkpoint cannot hold a {type(of).__name__}: a state, and what callbacks write "
            "into records, must consist of numbers, strings, arrays and lists of them"
        )

    def _array(self, of: NDArray[Any]) -> Any:
        if of.dtype.kind not in STORED:
            raise TypeError(f"a checkpoint cannot hold an array of {of.dtype}")
        name = str(len(self.arrays))
        turned = of.flags.f_contiguous and not of.flags.c_contiguous
        self.arrays[name] = of.T if turned else of
        return {"array": name, "turned": turned}


def _values(of: Any) -> dict[str, Any]:
    return of._asdict() if isinstance(of, tuple) else vars(of)  # type: ignore[attr-defined]


class _Reader:
    def __init__(self, kinds: Kinds, arrays: Arrays, device: Any = None) -> None:
        self.kinds = {kind.__name__: kind for kind in kinds}
        self.arrays, self.device = arrays, device
        self.made: list[Any] = []  # by number

    def build(self, node: Any, fresh: Any = None) -> Any:
        if not isinstance(node, dict):
            return node
        kind, content = next(iter(node.items()))
        if kind in ("float", "scalar"):
            number = np.frombuffer(bytes.fromhex(node["bytes"]), content)[0]
            return float(number) if kind == "float" else number
        if kind == "dtype":
            return np.dtype(content)
        if kind == "tuple":
            return tuple(self.build(part) for part in content)
        if kind == "same":
            return self.made[content]
        place = len(self.made)
        self.made.append(None)
        self.made[place] = self._NEW[kind](self, node, fresh)
        return self.made[place]

    def _list(self, node: dict[str, Any], fresh: Any) -> list[Any]:
        into = fresh if type(fresh) is list else []
        before = dict(enumerate(into))
        into[:] = [self.build(part, before.get(k)) for k, part in enumerate(node["list"])]
        return into

    def _dict(self, node: dict[str, Any], fresh: Any) -> dict[Any, Any]:
        into = fresh if type(fresh) is dict else {}
        pairs = [(self.build(key), self.build(value)) for key, value in node["dict"]]
        into.clear()
        into.update(pairs)
        return into

    def _array(self, node: dict[str, Any], fresh: Any) -> NDArray[Any]:
        array = self.arrays[node["array"]]
        return array.T if node["turned"] else array

    def _tensor(self, node: dict[str, Any], fresh: Any) -> Any:
        import torch  # noqa: PLC0415  (a fit on a device has it)

        device = node["tensor"] if self.device is None else self.device
        return torch.as_tensor(self._array(node["of"], None), device=device)

    def _generator(self, node: dict[str, Any], fresh: Any) -> np.random.Generator:
        if not isinstance(fresh, np.random.Generator):
            raise TypeError("a state must hold the generator of its fit from the start")
        fresh.bit_generator.state = self.build(node["generator"])
        return fresh

    def _object(self, node: dict[str, Any], fresh: Any) -> Any:
        kind: Any = self.kinds[node["is"]]
        into = fresh if type(fresh) is kind and _mutable(kind) else None
        before = {} if into is None else vars(into)
        values = {name: self.build(of, before.get(name)) for name, of in node["has"].items()}
        if issubclass(kind, tuple):
            return kind(**values)
        into = kind.__new__(kind) if into is None else into
        vars(into).clear()
        vars(into).update(values)
        return into

    _NEW: ClassVar[dict[str, Any]] = {
        "list": _list,
        "dict": _dict,
        "array": _array,
        "tensor": _tensor,
        "generator": _generator,
        "is": _object,
    }


def _device_of(tree: Any) -> Any:
    """The device of a tensor in a tree; None if it has none."""
    left, seen = [tree], set()
    while left:
        of = left.pop()
        if is_tensor(of):
            return of.device
        if id(of) in seen or type(of) in WHOLE:
            continue
        seen.add(id(of))
        if isinstance(of, list | tuple):
            left.extend(of)
        elif isinstance(of, dict):
            left.extend(of.values())
        elif hasattr(of, "__dict__"):
            left.extend(vars(of).values())
    return None


def _mutable(kind: Any) -> bool:
    return is_dataclass(kind) and not getattr(kind, "__dataclass_params__").frozen  # noqa: B009
