"""Fields of a response whose texts are decoded on the writer's thread."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any

from rlpanel.recording.trainers.token_text import decoder, token_texts


class HookTexts:
    """Decodes with a copy of a trainer's tokenizer, because the trainer goes on using its own."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = copy.deepcopy(tokenizer)
        self._decode = decoder(tokenizer)

    def fields(
        self,
        prompt: Sequence[int],
        ids: Sequence[int],
        mask: Sequence[int],
        written: Sequence[int] | None = None,
    ) -> dict[str, Any]:
        """Return prompt, response, its tokens and their loss mask, if it masks any.

        Parameters
        ----------
        prompt, ids : sequence of int
            Token ids of the prompt and of the response.
        mask : sequence of int
            1 for each token of the response that takes part in the loss.
        written : sequence of int, optional
            1 for each token that the policy wrote, of which the response's text is made; by default ``mask``.
        """
        own = [token for token, bit in zip(ids, written or mask, strict=True) if bit] or ids
        row: dict[str, Any] = {
            "prompt": partial(self._decode, list(prompt)),
            "response": partial(self._tokenizer.decode, list(own), skip_special_tokens=True),
            "response_token_ids": list(ids),
            "response_tokens": partial(token_texts, self._decode, list(ids)),
        }
        return row if all(mask) else row | {"loss_mask": list(mask)}
