"""A tokenizer with one token per character, and texts as a matrix of its ids."""

from __future__ import annotations

from typing import Any

import torch


class Letters:
    """A tokenizer with one token per character."""

    pad_token_id, eos_token_id = 0, 1

    def decode(self, ids: Any, **_: Any) -> str:
        return "".join(chr(number) for number in (ids.tolist() if hasattr(ids, "tolist") else ids) if number)

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]


TOKENS = Letters()


def padded(texts: list[str], *, left: bool = False) -> torch.Tensor:
    """Return the texts' ids as a matrix padded with 0."""
    width = max(map(len, texts))
    rows = [
        [0] * (width - len(text)) + TOKENS.encode(text) if left else TOKENS.encode(text) for text in texts
    ]
    return torch.tensor([row + [0] * (width - len(row)) for row in rows])
