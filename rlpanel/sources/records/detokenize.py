"""Decodes token ids to text with a Hugging Face ``tokenizer.json`` that the user names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rlpanel.errors import SettingError
from rlpanel.safe_files import SafeFolder
from rlpanel.sources.records.adapter_calls import WrappedAdapter
from rlpanel.sources.records.record_types import Record

#: Keys under which adapters keep prompt token ids, which are not part of the response's arrays.
_PROMPT_IDS = ("prompt_token_ids", "prompt_tokens")
#: Larger files are not read; the largest vocabularies have some 35 MB.
_MAX_BYTES = 64 << 20


@dataclass(frozen=True)
class DetokenizingAdapter(WrappedAdapter):
    """Adapter that fills in missing texts of another adapter's samples by decoding their token ids.

    Attributes
    ----------
    path : str
        Path of the tokenizer file.
    """

    path: str
    flat_format = None

    @property
    def name(self) -> str:
        """Name of the wrapped adapter and of the tokenizer."""
        return f"{self.adapter.name}, tokens of {self.path}"

    def read(self, document: Any, path: str, *, full: bool) -> list[Record]:
        """Read the line's samples; decode token ids only if ``full`` is set."""
        records = self.adapter.read(document, path, full=full)
        if full:
            for record in records:
                _add_texts(record, load_tokenizer(self.path))
        return records


def _add_texts(record: Record, vocabulary: Any) -> None:
    ids = record.arrays.get("response_token_ids")
    if ids is not None:
        numbers = [
            int(each) for each in ids.tolist() if each >= 0
        ]  # null is stored as NaN, and NaN is not an id
        if record.tokens is None and len(numbers) == len(ids):
            record.tokens = [_piece(vocabulary, each) for each in numbers]
        if "response" not in record.texts:
            record.texts["response"] = vocabulary.decode(numbers, skip_special_tokens=False)
    prompt = next((record.extra[key] for key in _PROMPT_IDS if key in record.extra), None)
    if "prompt" not in record.texts and isinstance(prompt, list):
        numbers = [each for each in prompt if isinstance(each, int) and each >= 0]
        record.texts["prompt"] = vocabulary.decode(numbers, skip_special_tokens=False)


def _piece(vocabulary: Any, number: int) -> str:
    """Return a token as the vocabulary spells it (``Ġthe``); an unknown id gives ``#id``."""
    return vocabulary.id_to_token(number) or f"#{number}"


@lru_cache(maxsize=4)
def load_tokenizer(path: str) -> Any:
    """Load the tokenizer from a file; the last four are cached.

    Parameters
    ----------
    path : str
        Real path of a regular file; no link in it is followed.

    Raises
    ------
    SettingError
        If the file is not a tokenizer or the ``tokenizers`` package is not installed.
    """
    try:
        import tokenizers
    except ImportError as error:
        raise SettingError("decoding tokens needs the tokenizers package: pip install tokenizers") from error
    folder, name = os.path.split(path)
    try:
        with SafeFolder.open(folder) as opened:
            content = opened.read(name, _MAX_BYTES)
        return tokenizers.Tokenizer.from_buffer(content)
    except Exception as error:  # the library raises plain Exceptions
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingError(f"{path} is not a valid tokenizer.json: {reason[:120]}") from error
