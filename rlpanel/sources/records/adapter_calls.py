"""Calls adapters: an adapter that raises an unexpected error on a line makes that line bad, nothing else.

Trainers write lines that no adapter expects: a list in the place of a number, an integer of 400 digits. All
calls of an adapter go through this module, so that no adapter needs to check every value.

Base class of adapters that change what another adapter reads, and are like it in all other respects.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlpanel.errors import LineError, RLPanelError, describe_error
from rlpanel.sources.records.path_numbers import named_step
from rlpanel.sources.records.record_types import Adapter, Record, changed_lines, place

log = logging.getLogger(__name__)

#: Maximum length of an adapter's name in a reason; some contain a path.
_NAME = 80


def accepts(adapter: Adapter, path: str, document: Mapping[str, Any]) -> bool:
    """Return whether an adapter accepts a file with this first line; one that fails does not."""
    try:
        return adapter.accepts(path, document)
    except MemoryError:
        raise
    except Exception:
        log.debug("%s does not accept the first line of %s", adapter.name, path, exc_info=True)
        return False


def read_samples(
    adapter: Adapter, document: Any, path: str, *, full: bool, offset: int | None = None
) -> list[Record]:
    """Return the samples of a line as `Adapter.read` does.

    Parameters
    ----------
    adapter : Adapter
    document : mapping
    path : str
    full : bool
    offset : int, optional
        Place of the line in its file, from which some adapters know more (see `place`).

    Raises
    ------
    LineError
        If the line is not a sample, or the adapter fails. Too little memory is not the line's fault.
    """
    try:
        records = adapter.read(document, path, full=full)
        if getattr(adapter, "lacks_steps", False) and (step := _named_step(adapter, path)):
            for record in records:
                record.step = record.step or step
        return records if offset is None else place(adapter, records, offset)
    except (RLPanelError, MemoryError):
        raise
    except Exception as error:
        log.debug("%s cannot read a line of %s", adapter.name, path, exc_info=True)
        reason = f"cannot be read as {adapter.name[:_NAME]}: {describe_error(error)}"
    # Raised here, because the error holds frames with lazy parts of the document.
    raise LineError(reason)


def _named_step(adapter: Adapter, path: str) -> int | None:
    is_one = hasattr(adapter, "document_name") or getattr(adapter, "whole_session", False)
    return named_step(path, is_one=is_one)


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


@dataclass(frozen=True)
class DefaultStep(WrappedAdapter):
    """Adapter that gives samples a step where its format has none, instead of 0.

    Attributes
    ----------
    step : int
    """

    step: int = 0

    @property
    def name(self) -> str:
        """Name of the wrapped adapter and the step."""
        return f"{self.adapter.name}, else step {self.step}"

    def read(self, document: Any, path: str, *, full: bool) -> list[Record]:
        """Read the line's samples; a step in the path comes first."""
        records = self.adapter.read(document, path, full=full)
        if _named_step(self.adapter, path) is None:
            for record in records:
                record.step = record.step or self.step
        return records


def with_default_step(adapter: Adapter, step: int | None) -> Adapter:
    """Return the adapter that gives the samples of a format without steps this one (see `Adapter`)."""
    if step is None or not getattr(adapter, "lacks_steps", False):
        return adapter
    return DefaultStep(adapter, step)
