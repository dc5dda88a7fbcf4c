"""Base class of adapters that change what another adapter reads, and are like it in all other respects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlpanel.sources.records.record_types import Adapter, Record, changed_lines


@dataclass(frozen=True)
class WrappedAdapter:
    """Adapter that has all attributes of another one, also the optional ones.

    Attributes
    ----------
    adapter : Adapter
    """

    adapter: Adapter

    @property
    def name(self) -> str:
        """Name of the wrapped adapter."""
        return self.adapter.name

    @property
    def looks(self) -> str:
        """Description of the wrapped adapter."""
        return self.adapter.looks

    def __getattr__(self, name: str) -> Any:
        """Return an optional attribute of the wrapped adapter."""
        if name.startswith("_") or name == "adapter":  # pickle asks for these before there is an adapter
            raise AttributeError(name)
        return getattr(self.adapter, name)

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return the wrapped adapter's answer."""
        return self.adapter.accepts(path, document)

    def read(self, document: Any, path: str, *, full: bool) -> list[Record]:
        """Return what the wrapped adapter reads."""
        return self.adapter.read(document, path, full=full)

    def changed_lines(self, before: Adapter) -> Mapping[int, set[str]] | None:
        """Return the wrapped adapter's answer, unless the adapter around it has changed, too."""
        if type(before) is not type(self) or replace(self, adapter=before.adapter) != before:
            return None
        return changed_lines(self.adapter, before.adapter)
