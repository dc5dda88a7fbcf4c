"""Texts for token ids, by a tokenizer that a person names: ``tokenizer.json``, as Hugging Face writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rlpanel.errors import SettingError
from rlpanel.sources.records.record_types import Adapter, Record

#: Where adapters leave a prompt's ids, which have no place among the response's arrays.
_PROMPT_IDS = ("prompt_token_ids", "prompt_tokens")


@dataclass(frozen=True)
class DetokenizingAdapter:
    """A dialect whose samples get the texts that they lack from their token ids.

    Attributes
    ----------
    adapter : Adapter
    path : str
        The tokenizer's file.
    """

    adapter: Adapter
    path: str

    @property
    def name(self) -> str:
        """The dialect's name, and the tokenizer's."""
        return f"{self.adapter.name}, tokens of {self.path}"

    @property
    def looks(self) -> str:
        """As the dialect."""
        return self.adapter.looks

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """As the dialect."""
        return self.adapter.accepts(path, document)

    def read(self, document: Any, path: str, *, full: bool) -> list[Record]:
        """The line's samples; ids become texts where they are read in full."""
        records = self.adapter.read(document, path, full=full)
        if full:
            for record in records:
                _add_texts(record, tokenizer(self.path))
        return records


def _add_texts(record: Record, vocabulary: Any) -> None:
    ids = record.arrays.get("response_token_ids")
    if ids is not None:
        numbers = [int(each) for each in ids.tolist() if each >= 0]  # a null is NaN, which is no id
        if record.tokens is None and len(numbers) == len(ids):
            record.tokens = [_piece(vocabulary, each) for each in numbers]
        if "response" not in record.texts:
            record.texts["response"] = vocabulary.decode(numbers, skip_special_tokens=False)
    prompt = next((record.extra[key] for key in _PROMPT_IDS if key in record.extra), None)
    if "prompt" not in record.texts and isinstance(prompt, list):
        numbers = [each for each in prompt if isinstance(each, int) and each >= 0]
        record.texts["prompt"] = vocabulary.decode(numbers, skip_special_tokens=False)


def _piece(vocabulary: Any, number: int) -> str:
    """A token as the vocabulary spells it (``Ġthe``); an id beyond it as ``#id``."""
    return vocabulary.id_to_token(number) or f"#{number}"


@lru_cache(maxsize=4)
def tokenizer(path: str) -> Any:
    """The tokenizer in a file.

    Raises
    ------
    SettingError
        If there is none, or no library to read it.
    """
    try:
        import tokenizers
    except ImportError as error:
        raise SettingError("a tokenizer needs the tokenizers package: pip install tokenizers") from error
    try:
        return tokenizers.Tokenizer.from_file(path)
    except Exception as error:  # the library raises plain Exceptions
        raise SettingError(f"{path} is no tokenizer.json: {str(error)[:120]}") from error
