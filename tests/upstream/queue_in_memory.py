"""verl's TransferQueue in memory: fields of samples by key, which are tensors of different lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch


class Fields(dict[str, Any]):
    """Columns of a batch, with the methods of tensordict's ``TensorDict`` that verl uses."""

    def __init__(self, source: Mapping[str, Any], batch_size: Any = None) -> None:
        super().__init__(source)

    def select(self, *names: str) -> Fields:
        return Fields({name: self[name] for name in names})

    def to_padded_tensor(self) -> Fields:
        return Fields({name: _padded(column) for name, column in self.items()})

    def rows(self) -> list[dict[str, Any]]:
        """Return each sample's fields."""
        columns = [_items(column) for column in self.values()]
        return [dict(zip(self, row, strict=True)) for row in zip(*columns, strict=True)]

    def __getitem__(self, key: str | int) -> Any:
        return self.rows()[key] if isinstance(key, int) else super().__getitem__(key)


class Batch:
    """Keys and tags of samples, as ``KVBatchMeta`` of TransferQueue."""

    def __init__(
        self,
        partition_id: str,
        keys: list[str],
        tags: list[dict[str, Any]],
        fields: Any = None,
        extra_info: dict[str, Any] | None = None,
    ) -> None:
        self.partition_id, self.keys, self.tags = partition_id, keys, tags
        self.fields, self.extra_info = fields, extra_info or {}

    def __len__(self) -> int:
        return len(self.keys)

    def reorder(self, places: list[int]) -> None:
        self.keys = [self.keys[place] for place in places]
        self.tags = [self.tags[place] for place in places]


class Queue:
    """The functions of the module ``transfer_queue``, for one partition."""

    KVBatchMeta = Batch

    def __init__(self) -> None:
        self.samples: dict[str, dict[str, Any]] = {}
        self.tags: dict[str, dict[str, Any]] = {}

    def kv_batch_put(
        self, *, keys: list[str], partition_id: str, fields: Fields, tags: list[dict[str, Any]] | None = None
    ) -> Batch:
        for key, row in zip(keys, fields.rows(), strict=True):
            self.samples.setdefault(key, {}).update(row)
        self.tags |= dict(zip(keys, tags or [], strict=tags is not None))
        return self.batch(keys)

    async def async_kv_batch_put(self, **given: Any) -> None:
        self.kv_batch_put(**given)

    def kv_batch_get(
        self, *, keys: list[str], partition_id: str, select_fields: list[str] | None = None
    ) -> Fields:
        """Return the fields that all samples have; a field that was never put is left out."""
        rows = [self.samples[key] for key in keys]
        names = [name for name in select_fields or rows[0] if all(name in row for row in rows)]
        return Fields({name: _column([row[name] for row in rows]) for name in names})

    def batch(self, keys: list[str]) -> Batch:
        return Batch("train", list(keys), [self.tags[key] for key in keys])

    def fill(self, batch: Batch, name: str, value: Callable[[int], float]) -> None:
        """Put a number for each place of each sample's sequence."""
        lengths = [self.tags[key]["seq_len"] for key in batch.keys]
        column = _column([torch.tensor([value(place) for place in range(length)]) for length in lengths])
        self.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=Fields({name: column}))


def _items(column: Any) -> list[Any]:
    return list(column.unbind() if isinstance(column, torch.Tensor) else column)


def _padded(column: Any) -> Any:
    is_ragged = isinstance(column, torch.Tensor) and column.is_nested
    return torch.nested.to_padded_tensor(column, 0) if is_ragged else column


def _column(values: list[Any]) -> Any:
    if all(isinstance(value, torch.Tensor) for value in values):
        return torch.nested.as_nested_tensor(values, layout=torch.jagged)
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
