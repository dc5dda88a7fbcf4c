"""Writes files in the layout of ``torch.save`` without torch: a pickle, and a file for each storage."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

_NAMES = {"f4": "Float", "f8": "Double", "f2": "Half", "i8": "Long", "i4": "Int", "u1": "Byte", "b1": "Bool"}


class Named:
    """A name that is pickled as a global of another module."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


class Call:
    """A call that the reader of the pickle is asked for."""

    def __init__(self, module: str, name: str, *arguments: Any) -> None:
        self.function, self.arguments = Named(module, name), arguments


class _Writer(pickle._Pickler):  # type: ignore[name-defined]
    """Pickler in Python, of which names and calls can be chosen."""

    def __init__(self, file: io.BytesIO, protocol: int = 2) -> None:
        super().__init__(file, protocol)
        self.storages: list[np.ndarray] = []

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, Stored):
            self.storages.append(obj.values)
            kind = Named("torch", f"{_NAMES[obj.values.dtype.str[1:]]}Storage")
            return ("storage", kind, str(len(self.storages) - 1), "cpu", obj.values.size)
        return None

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if isinstance(obj, Named):
            self.write(b"c" + f"{obj.module}\n{obj.name}\n".encode())
        elif isinstance(obj, Call):
            self.save(obj.function)
            self.save(obj.arguments)
            self.write(pickle.REDUCE)
        elif isinstance(obj, np.ndarray):
            steps = tuple(step // obj.itemsize for step in obj.strides)
            storage = Stored(np.ascontiguousarray(obj))
            self.save(
                Call(
                    *("torch._utils", "_rebuild_tensor_v2", storage, 0, obj.shape, steps, False),
                    Call("collections", "OrderedDict"),
                )
            )
        else:
            super().save(obj, save_persistent_id)


class Stored:
    """Storage of a tensor."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values


def write_torch(path: Path, content: Any, *, compression: int = zipfile.ZIP_STORED) -> Path:
    """Write a value as ``torch.save`` does; arrays become tensors.

    Parameters
    ----------
    content : object
        Of plain values, arrays, `Named` and `Call`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    writer = _Writer(buffer)
    writer.dump(content)
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", buffer.getvalue())
        archive.writestr("archive/byteorder", "little")
        for number, values in enumerate(writer.storages):
            archive.writestr(f"archive/data/{number}", values.tobytes())
    return path
