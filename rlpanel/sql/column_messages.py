"""Messages between rlpanel and the process that runs queries: a line of JSON, then columns as bytes.

No message holds code or names of classes, so that a process which a query damaged cannot make the reader run
anything. Columns have the same types and values on both sides.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import uuid
from collections.abc import Callable, Sequence
from typing import IO, Any

import numpy as np
import pandas as pd

from rlpanel.errors import QueryError

#: Kinds of arrays that are only bytes: truth values, numbers, times.
_KINDS = "biufmM"


def send(stream: IO[bytes], head: dict[str, Any], arrays: Sequence[np.ndarray] = ()) -> None:
    """Write one message."""
    sizes = [[array.dtype.str, len(array)] for array in arrays]
    stream.write(json.dumps({"head": head, "arrays": sizes}).encode() + b"\n")
    for array in arrays:
        stream.write(np.ascontiguousarray(array).view(np.uint8).data)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Read one message.

    Raises
    ------
    EOFError
        If the other process has ended.
    ValueError
        If it is not a message.
    """
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    message = json.loads(line)
    arrays = [_array(stream, np.dtype(dtype), length) for dtype, length in message["arrays"]]
    return message["head"], arrays


def _array(stream: IO[bytes], dtype: np.dtype, length: int) -> np.ndarray:
    if dtype.kind not in _KINDS:
        raise ValueError(f"an array of {dtype} is not sent")
    array = np.empty(length, dtype)
    room = array.view(np.uint8)
    if length and stream.readinto(room.data) != len(room):  # type: ignore[attr-defined]
        raise EOFError
    return array


#: Bytes that a text or another object takes in Python besides its characters.
_OBJECT = 64
#: Types that JSON has.
_OF_JSON = frozenset({type(None), bool, int, float, str})
#: Other types of single values: tag, to text, from text.
_VALUES: dict[type, tuple[str, Callable[[Any], str], Callable[[str], Any]]] = {
    uuid.UUID: ("uuid", str, uuid.UUID),
    decimal.Decimal: ("decimal", str, decimal.Decimal),
    datetime.date: ("date", datetime.date.isoformat, datetime.date.fromisoformat),
    datetime.time: ("time", datetime.time.isoformat, datetime.time.fromisoformat),
    datetime.datetime: ("datetime", datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    datetime.timedelta: (
        "timedelta",
        lambda value: str(value // datetime.timedelta(microseconds=1)),
        lambda text: datetime.timedelta(microseconds=int(text)),
    ),
    bytes: ("bytes", bytes.hex, bytes.fromhex),
    bytearray: ("bytearray", bytearray.hex, bytearray.fromhex),
    type(pd.NA): ("NA", str, lambda _: pd.NA),
}
_FROM_TEXT = {tag: read for tag, _, read in _VALUES.values()}


def column_to_arrays(values: pd.Series) -> tuple[dict[str, Any], list[np.ndarray], int]:
    """Return a description, arrays of plain bytes, and about how many bytes the column takes in memory.

    Raises
    ------
    QueryError
        If it has values of a type that is not known here.
    """
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        texts = [str(text) for text in dtype.categories]
        found = {"kind": "category", "texts": texts, "ordered": bool(dtype.ordered)}
        codes = values.cat.codes.to_numpy()
        return found, [codes], codes.nbytes + sum(map(len, texts)) + _OBJECT * len(texts)
    if isinstance(dtype, pd.DatetimeTZDtype):
        times = values.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        return {"kind": "zoned", "zone": str(dtype.tz)}, [times], times.nbytes
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        numbers = values.to_numpy()
        return {"kind": "numbers"}, [numbers], numbers.nbytes
    if pd.api.types.is_object_dtype(dtype) or pd.api.types.is_string_dtype(dtype):
        return _texts(values)
    missing = values.isna().to_numpy()
    data = values.to_numpy(dtype=dtype.numpy_dtype, na_value=0)
    return {"kind": "masked", "dtype": str(dtype)}, [data, missing], data.nbytes + missing.nbytes


def _texts(values: pd.Series) -> tuple[dict[str, Any], list[np.ndarray], int]:
    """Return a column of texts or other objects as JSON."""
    cells = values.to_numpy(object).tolist()
    only_texts = not pd.api.types.is_object_dtype(values.dtype)
    if only_texts:
        cells = [cell if isinstance(cell, str) else None for cell in cells]
        objects = len(cells)
    else:
        cells = [_to_json(cell) for cell in cells]
    written = json.dumps(cells, ensure_ascii=False).encode("utf-8", "surrogatepass")
    if not only_texts:
        objects = written.count(b",") + 1
    found = {"kind": "texts" if only_texts else "objects", "dtype": str(values.dtype)}
    return found, [np.frombuffer(written, np.uint8)], len(written) + _OBJECT * objects


def column_from_arrays(found: dict[str, Any], arrays: list[np.ndarray]) -> Any:
    """Return the column that `column_to_arrays` described."""
    kind = found["kind"]
    if kind == "category":
        return pd.Categorical.from_codes(arrays[0], pd.Index(found["texts"]), ordered=found["ordered"])
    if kind == "zoned":
        return pd.Series(arrays[0]).dt.tz_localize("UTC").dt.tz_convert(found["zone"])
    if kind == "masked":
        values = pd.array(arrays[0], dtype=found["dtype"])
        values[arrays[1]] = pd.NA
        return values
    if kind == "numbers":
        return arrays[0]
    cells = json.loads(arrays[0].tobytes().decode("utf-8", "surrogatepass"))
    if kind == "texts":
        return pd.array(cells, dtype=found["dtype"])
    objects = np.empty(len(cells), object)
    for at, cell in enumerate(cells):
        objects[at] = _from_json(cell)
    return pd.Series(objects, dtype=object)  # pandas would make texts of them


def _to_json(value: Any) -> Any:
    """Return a value as JSON; what JSON does not have is a list that begins with its type."""
    kind = type(value)
    if kind in _OF_JSON:
        return value
    if kind is dict:
        return ["dict", [[_to_json(key), _to_json(item)] for key, item in value.items()]]
    if kind in (list, tuple):
        return [kind.__name__, [_to_json(item) for item in value]]
    if kind is np.ma.MaskedArray:
        return ["masked", _to_json(value.data), _to_json(np.ma.getmaskarray(value))]
    if kind is np.ndarray and value.dtype == object:
        return ["objects", [_to_json(item) for item in value]]
    if kind is np.ndarray:
        return ["array", value.dtype.str, base64.b64encode(value.tobytes()).decode()]
    if kind in _VALUES:
        tag, write, _ = _VALUES[kind]
        return [tag, write(value)]
    raise QueryError(f"values of the type {kind.__name__} cannot be returned: cast them to varchar")


def _from_json(value: Any) -> Any:
    """Return the value that `_to_json` was given."""
    match value:
        case ["dict", items]:
            return {_from_json(key): _from_json(item) for key, item in items}
        case ["list", items]:
            return [_from_json(item) for item in items]
        case ["tuple", items]:
            return tuple(_from_json(item) for item in items)
        case ["masked", data, mask]:
            return np.ma.MaskedArray(_from_json(data), _from_json(mask))
        case ["objects", items]:
            objects = np.empty(len(items), object)
            for at, item in enumerate(items):
                objects[at] = _from_json(item)
            return objects
        case ["array", dtype, data]:
            return np.frombuffer(bytearray(base64.b64decode(data)), dtype)
        case [tag, text]:
            return _FROM_TEXT[tag](text)
    return value
