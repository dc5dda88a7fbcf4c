"""Finds the run's tokenizer: the one that the settings name, else the one of ``run.json`` if it is installed.

Nothing is downloaded. ``run.json`` may name a model of the Hugging Face hub, which is looked for in the local
cache; a path that a log names is not read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlpanel.errors import SettingError
from rlpanel.sources.records.detokenize import DetokenizingAdapter, load_tokenizer
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot

#: Keys of ``run.json`` that name a tokenizer or a model.
_KEYS = ("tokenizer", "tokenizer_name", "tokenizer_name_or_path", "model", "model_name", "model_name_or_path")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


@dataclass(frozen=True)
class RunTokenizer:
    """The tokenizer of a run.

    Attributes
    ----------
    decode : callable or None
        Returns the text of token ids, with special tokens.
    problem : str
        Reason why the tokenizer that the run names is not used; empty if none is named.
    path : str
        Its file; empty without one.
    """

    decode: Callable[[Sequence[int]], str] | None = None
    problem: str = ""
    path: str = ""

    @classmethod
    def of(cls, logged: Mapping[str, Any], index: RunIndex, snapshot: Snapshot) -> RunTokenizer:
        """Return the tokenizer of a run."""
        path, name = _configured(index, snapshot), ""
        if not path:
            name = next((logged[key] for key in _KEYS if isinstance(logged.get(key), str)), "")
            path = _in_cache(name) if _HUB_NAME.fullmatch(name) else ""
        if not path:
            reason = "is not in the local Hugging Face cache" if _HUB_NAME.fullmatch(name) else "is a path"
            problem = f"the tokenizer {name[:80]!r} {reason}: name its file with --tokenizer" if name else ""
            return cls(None, problem)
        try:
            return cls(decoder_of(path), "", path)
        except SettingError as error:
            return cls(None, f"the tokenizer cannot be loaded: {error}")


def decoder_of(path: str) -> Callable[[Sequence[int]], str]:
    """Return the function that decodes ids by a tokenizer; SettingError if it cannot be loaded."""
    vocabulary = load_tokenizer(path)
    return lambda ids: str(vocabulary.decode(list(ids), skip_special_tokens=False))


def _configured(index: RunIndex, snapshot: Snapshot) -> str:
    """Return the path of the tokenizer with which texts of the run's first file are read."""
    if not snapshot.samples:
        return ""
    adapter: Any = index.reader(snapshot.file(int(snapshot.alive_rows[0]))).adapter
    while adapter is not None:
        if isinstance(adapter, DetokenizingAdapter):
            return adapter.path
        adapter = getattr(adapter, "adapter", None)
    return ""


def _in_cache(name: str) -> str:
    """Return the path of a model's tokenizer in the local cache of the hub; empty without one."""
    home = os.environ.get("HF_HOME") or os.path.join(os.path.expanduser("~"), ".cache", "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub"))
    folder = hub / f"models--{name.replace('/', '--')}" / "snapshots"
    try:
        found = sorted(folder.glob("*/tokenizer.json"), key=lambda path: path.stat().st_mtime)
        return str(found[-1].resolve()) if found else ""
    except OSError:
        return ""
