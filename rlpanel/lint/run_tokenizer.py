"""Finds the run's tokenizer: the one that the settings name, else the one of ``run.json`` if it is installed.

Nothing is downloaded. ``run.json`` may name a model of the Hugging Face hub, which is looked for in the local
cache; a path that a log names is not read. A tokenizer that decodes no sample to any logged text is another
one than the run's: it is named and not used, so that it fails no sample.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlpanel.errors import RLPanelError, SettingError
from rlpanel.lint.lint_samples import response_messages, token_text
from rlpanel.sources.records.detokenize import DetokenizingAdapter, load_tokenizer
from rlpanel.sources.records.record_types import Record
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.sample_places import spread_rows
from rlpanel.store.snapshot.snapshot import Snapshot

#: Keys of ``run.json`` that name a tokenizer or a model.
_KEYS = ("tokenizer", "tokenizer_name", "tokenizer_name_or_path", "model", "model_name", "model_name_or_path")
#: Samples by which a tokenizer is tried, and the least number of them that have ids beside a text.
TRIED, _MIN_TRIED = 16, 3
#: Share of a text's three-letter pieces that its decoded ids have, at least. The pieces of an own tokenizer
#: are nearly all there (0.9 and more), those of a foreign one by chance (below 0.2).
_ALIKE = 0.5
#: The same share for tokens that are kept beside a foreign tokenizer: the trainer logged them.
_SAME = 0.9
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
    foreign : bool
        Whether it is another tokenizer than the run's, so that tokens which it decoded mean nothing.
    """

    decode: Callable[[Sequence[int]], str] | None = None
    problem: str = ""
    path: str = ""
    foreign: bool = False

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
            decode = decoder_of(path)
        except SettingError as error:
            return cls(None, f"the tokenizer cannot be loaded: {error}")
        tried = _foreign_samples(decode, index, snapshot)
        if not tried:
            return cls(decode, "", path)
        reason = f"{path} decodes the ids of {tried} samples to texts that none of them logs"
        return cls(None, f"{reason}: name the run's own tokenizer with --tokenizer", foreign=True)


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


def _foreign_samples(decode: Callable[[Sequence[int]], str], index: RunIndex, snapshot: Snapshot) -> int:
    """Return the number of tried samples if the tokenizer is not the run's; else, or with too few, 0.

    Ids that were moved between samples decode to the text of another sample, so each is compared with all.
    """
    rows = snapshot.alive_rows
    if not len(rows):
        return 0
    decoded, logged = [], []
    for row in spread_rows(rows, TRIED).tolist():
        try:
            record = index.reader(snapshot.file(row)).fetch(snapshot.locator(row))
        except (RLPanelError, OSError, IndexError):
            continue
        ids, pieces = record.arrays.get("response_token_ids"), _pieces(written_text(record))
        if ids is not None and len(ids) and np.isfinite(ids).all() and pieces:
            decoded.append(_pieces(decode(ids.astype(np.int64).tolist())))
            logged.append(pieces)
    if len(decoded) < _MIN_TRIED:
        return 0
    alike = (len(own & text) >= _ALIKE * len(text) for own in decoded for text in logged)
    return 0 if any(alike) else len(decoded)


def written_text(record: Record) -> str:
    """Return the texts that the policy wrote: its messages, else the response."""
    messages = response_messages(record)
    own = [message["content"] for message in messages if message["role"] == "assistant"]
    return "\n".join(own) if any(own) else record.texts.get("response", "")


def _pieces(text: str) -> set[str]:
    """Return the pieces of three characters of a text without white space."""
    plain = "".join(text.split())
    return {plain[at : at + 3] for at in range(len(plain) - 2)}


def without_foreign_tokens(record: Record) -> Record:
    """Take the tokens from a sample if a foreign tokenizer decoded them: they are not in its text."""
    if record.tokens and "response_token_ids" in record.arrays:
        text = _pieces(written_text(record))
        if len(_pieces(token_text(record.tokens)) & text) < _SAME * len(text):
            record.tokens = None
    return record
