"""Reads pickles and ``torch.save`` files of plain values, arrays and tensors; it calls nothing else."""

from __future__ import annotations

import io
import pickle
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

import numpy as np

from rlpanel.errors import RLPanelError

# -- plain unpickler -----------------------------------------------------------------------------------
# Reads a pickle of plain values, arrays and tensors, and calls nothing else that the pickle names.
#
# A pickle is a program: it names functions of any module and has them called. `PlainUnpickler.find_class`
# looks each name up in a table of functions of this module and imports nothing. For another name it returns a
# class whose objects hold nothing; how many there were is counted by name. So a dump whose metadata has
# objects of an environment is read, and a hostile one does nothing.
#
# Formats: the standard library's ``pickletools``; ``torch._utils`` for tensors; ``numpy._core`` for arrays.


#: Most values of one tensor, which may be larger than its storage.
MAX_VALUES = 200_000_000
#: Element types of torch's storages and tensors. bfloat16 is the upper half of a float32.
TORCH_TYPES = {
    "Float": "f4",
    "Double": "f8",
    "Half": "f2",
    "BFloat16": "bfloat16",
    "Long": "i8",
    "Int": "i4",
    "Short": "i2",
    "Char": "i1",
    "Byte": "u1",
    "Bool": "?",
}
_DTYPE = re.compile(r"[<>|=]?([biufUS?])(\d{0,9})\Z")
#: Characters of a name that are kept.
_NAME = 120


class PlainArray:
    """Values of a tensor or array, read-only for the pickle.

    Attributes
    ----------
    values : ndarray
    """

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values."""
        return self.values.shape

    def tolist(self) -> Any:
        """Return the values as a number or nested lists."""
        return self.values.tolist()

    def __setstate__(self, state: Any) -> None:
        """Take the state of a pickled numpy array: version, shape, type, order, bytes."""
        _, shape, kind, is_fortran, raw = state
        if not isinstance(kind, PlainType):
            raise RLPanelError("an array without a type")
        if isinstance(raw, list):
            self.values = np.empty(len(raw), object)
            self.values[:] = [str(each) for each in raw]
        else:
            self.values = np.frombuffer(raw, kind.dtype).reshape(shape, order="F" if is_fortran else "C")


class PlainType:
    """Type of a numpy array: numbers, booleans and texts of a fixed length."""

    def __init__(self, code: str, *_: Any) -> None:
        self.code, self.order = code, "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = state[1] if state[1] in ("<", ">") else "<"

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type for numpy."""
        found = _DTYPE.match(str(self.code))
        if found is None:
            raise RLPanelError(f"an array of the type {str(self.code)[:40]!r}")
        return np.dtype(self.order + found[1] + found[2])


class PlainDict(dict[Any, Any]):
    """Mapping that ignores attributes which a pickle gives it."""

    def __setstate__(self, state: Any) -> None:
        """Ignore the state."""


class EmptyObject:
    """Object of a class that is not read: it keeps no value."""

    def __new__(cls, *_: Any, **__: Any) -> EmptyObject:
        """Return an empty object."""
        cls.counted[cls.named] += 1
        return object.__new__(cls)

    counted: Counter[str]
    named: str

    def __init__(self, *_: Any, **__: Any) -> None:
        """Ignore the arguments."""

    def __call__(self, *_: Any, **__: Any) -> EmptyObject:
        """Return the object itself."""
        return self

    def __setstate__(self, state: Any) -> None:
        """Ignore the state."""

    def __setitem__(self, key: Any, value: Any) -> None:
        """Ignore the item."""

    def append(self, value: Any) -> None:
        """Ignore the item."""

    def extend(self, values: Any) -> None:
        """Ignore the items."""


class Storage:
    """Numbers of one storage of a torch file.

    Attributes
    ----------
    values : ndarray, shape (N,)
    """

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __setstate__(self, state: Any) -> None:
        """Ignore the state."""


class StorageType(str):
    """Element type of a storage: a value of `TORCH_TYPES`."""


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> PlainArray:
    """Return a tensor, as ``torch._utils._rebuild_tensor_v2`` does; its places are checked first."""
    whole = [offset, *size, *stride]
    if not isinstance(storage, Storage) or not all(type(each) is int and each >= 0 for each in whole):
        raise RLPanelError("a tensor without a storage")
    if len(size) != len(stride) or len(size) > 32:
        raise RLPanelError("a tensor whose size and stride differ")
    values, count = storage.values, 1
    for each in size:
        count *= each
    last = offset + sum((each - 1) * step for each, step in zip(size, stride, strict=True))
    if count > MAX_VALUES or (count and last >= len(values)):
        raise RLPanelError("a tensor that is larger than its storage")
    if not count:
        return PlainArray(np.empty(tuple(size), values.dtype))
    item = values.itemsize
    view = np.lib.stride_tricks.as_strided(
        values[offset:], tuple(size), tuple(step * item for step in stride), writeable=False
    )
    return PlainArray(view)


def _parameter(data: Any, *_: Any) -> Any:
    return data


def _array(*_: Any) -> PlainArray:
    return PlainArray(np.empty(0))


def _from_buffer(raw: Any, kind: Any, shape: Any, order: Any) -> PlainArray:
    found = PlainArray(np.empty(0))
    found.__setstate__((1, shape, kind, order == "F", raw))
    return found


def _scalar(kind: Any, raw: Any = b"") -> Any:
    found = PlainArray(np.empty(0))
    found.__setstate__((1, (), kind, False, raw))
    return found.tolist()


def _encoded(text: Any, encoding: Any = "latin1") -> bytes:
    """Return bytes, which old protocols pickle as a text in Latin-1."""
    return str(text).encode("latin1")


def _mapping(*_: Any) -> PlainDict:
    return PlainDict()


def _listed(items: Iterable[Any] = (), *_: Any) -> list[Any]:
    return list(items)


def _as_bytes(raw: Any = b"", *_: Any) -> bytes:
    return raw if isinstance(raw, bytes) else _encoded(raw)


def _size(items: Iterable[Any] = ()) -> tuple[Any, ...]:
    return tuple(items)


_BUILT_IN: dict[str, Callable[..., Any]] = {
    "set": _listed,
    "frozenset": _listed,
    "list": _listed,
    "dict": _mapping,
    "bytearray": _as_bytes,
}
#: What a pickle may name, by module and name.
ALLOWED: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("torch", "Size"): _size,
    ("collections", "OrderedDict"): _mapping,
    ("collections", "defaultdict"): _mapping,
    ("collections", "deque"): _listed,
    ("_codecs", "encode"): _encoded,
    ("numpy", "ndarray"): _array,
    ("numpy", "dtype"): PlainType,
    **{("torch", f"{name}Storage"): StorageType(code) for name, code in TORCH_TYPES.items()},
    **{(module, name): call for module in ("builtins", "__builtin__") for name, call in _BUILT_IN.items()},
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _array for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _scalar for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _from_buffer for core in ("core", "_core")},
}


class PlainUnpickler(pickle.Unpickler):
    """Unpickler that knows the names in `ALLOWED` only.

    Parameters
    ----------
    file : binary file
    storage : callable, optional
        Returns the storage with a key, a type and a number of values.

    Attributes
    ----------
    left_out : Counter
        Number of objects of other classes, by their names.
    """

    def __init__(
        self, file: BinaryIO, storage: Callable[[str, StorageType, int], Storage] | None = None
    ) -> None:
        super().__init__(file)
        self._storage, self._made = storage, dict[tuple[str, str], type[EmptyObject]]()
        self.left_out: Counter[str] = Counter()

    def find_class(self, module: str, name: str) -> Any:
        """Return what a name stands for, or a class whose objects hold nothing; nothing is imported."""
        known = ALLOWED.get((module, name))
        if known is not None:
            return known
        key = module[:_NAME], name[:_NAME]
        if key not in self._made:
            names = {"counted": self.left_out, "named": f"{key[0]}.{key[1]}"}
            self._made[key] = type("EmptyObject", (EmptyObject,), names)
        return self._made[key]

    def persistent_load(self, pid: Any) -> Any:
        """Return the storage that a tensor names."""
        is_known = isinstance(pid, tuple) and len(pid) == 5 and pid[0] == "storage"
        if not is_known or self._storage is None:
            raise RLPanelError("a reference to something outside of the file")
        _, kind, key, _, count = pid
        if isinstance(kind, type) and issubclass(kind, EmptyObject):
            raise RLPanelError(f"a tensor of the type {kind.named}, which is not read")
        if not isinstance(kind, StorageType) or not isinstance(key, str) or type(count) is not int:
            raise RLPanelError("a tensor without a storage")
        return self._storage(key, kind, count)


# -- torch archive -------------------------------------------------------------------------------------
# Reads what ``torch.save`` wrote: a ZIP file with ``data.pkl`` and one uncompressed file for each storage.
#
# Source: torch's ``torch/serialization.py``, ``_save`` (from torch 1.6 on). The older format is not read.


def read_torch(file: BinaryIO) -> tuple[Any, Counter[str]]:
    """Return the content of a torch file or of a pickle, and how many objects were left out, by class.

    Parameters
    ----------
    file : binary file
        Open for reading, and seekable.

    Raises
    ------
    RLPanelError
        If the file is damaged, or has something else than plain values, arrays and tensors where it matters.
    """
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                return _read(archive)
        file.seek(0)
        reader = PlainUnpickler(file)
        return reader.load(), reader.left_out
    except (RLPanelError, MemoryError):
        raise
    except RecursionError as error:
        raise RLPanelError("it is nested too deeply") from error
    except Exception as error:  # a damaged pickle raises many kinds
        raise RLPanelError(f"it is no pickle of plain values: {str(error)[:160]}") from error


def _read(archive: zipfile.ZipFile) -> tuple[Any, Counter[str]]:
    names = {member.filename: member for member in archive.infolist()}
    found = [name for name in names if name.rpartition("/")[2] == "data.pkl"]
    if len(found) != 1:
        raise RLPanelError("it holds no data.pkl, as torch writes it")
    folder = found[0].removesuffix("data.pkl")
    order = archive.read(f"{folder}byteorder") if f"{folder}byteorder" in names else b"little"
    known: dict[str, Storage] = {}

    def storage(key: str, kind: StorageType, count: int) -> Storage:
        if key not in known:
            known[key] = Storage(_numbers(_stored(archive, f"{folder}data/{key}"), kind, count, order))
        return known[key]

    reader = PlainUnpickler(io.BytesIO(_stored(archive, found[0])), storage)
    return reader.load(), reader.left_out


def _stored(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a member's bytes; torch never compresses, so a compressed one may be a bomb."""
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED:
        raise RLPanelError("a compressed part, which torch does not write")
    return archive.read(member)


def _numbers(raw: bytes, kind: StorageType, count: int, order: bytes) -> np.ndarray:
    """Return the values of a storage, shape (count,); bfloat16 becomes float32."""
    sign = ">" if order.strip() == b"big" else "<"
    if kind == "bfloat16":
        return (np.frombuffer(raw, f"{sign}u2", count).astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(raw, "?" if kind == "?" else f"{sign}{kind}", count)
