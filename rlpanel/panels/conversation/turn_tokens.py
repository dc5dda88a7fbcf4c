"""Finds the tokens of each message of a response: by the loss mask, else by the messages' texts.

The loss mask is 1 for tokens that the policy wrote: each run of them is one of its messages, if there are as
many runs as messages. Without such a mask, the beginning and the end of each message are searched in the
text of the tokens, in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpanel.panels.language.labels import tr

#: Characters of a message's beginning and end that are searched in the text of the tokens.
_SEARCHED = 48

Span = tuple[int, int]


@dataclass(frozen=True)
class TurnTokens:
    """The tokens of each message of a response.

    Attributes
    ----------
    spans : list of (int, int) or None, one per message
        First token and the one after the last; None where they are not known.
    method : str
        ``single``, ``loss mask`` or ``texts``; empty if no tokens are logged or none could be found.
    note : str
        What is uncertain, for the reader; empty if nothing is.
    """

    spans: list[Span | None]
    method: str = ""
    note: str = ""


def turn_tokens(
    response: Sequence[Mapping[str, Any]], texts: Sequence[str], loss_mask: np.ndarray | None
) -> TurnTokens:
    """Return the tokens of each message of a response.

    Parameters
    ----------
    response : sequence of mapping
        Messages of the response in order.
    texts : sequence of str, length T
        Decoded text of each token of the response; joined, they are its text.
    loss_mask : ndarray of float, shape (T,), optional
        Not 0 for tokens that the policy wrote.
    """
    unknown: list[Span | None] = [None] * len(response)
    if not texts or not response:
        return TurnTokens(unknown)
    if len(response) == 1:
        return TurnTokens([(0, len(texts))], "single")
    located = _Located(response, texts)
    masked = _by_mask(response, len(texts), loss_mask)
    if masked is not None:
        return _checked(masked, located)
    return located.result()


def _by_mask(
    response: Sequence[Mapping[str, Any]], tokens: int, loss_mask: np.ndarray | None
) -> list[Span | None] | None:
    """Return the spans that the runs of the loss mask give; None if their number differs from the turns'."""
    if loss_mask is None or len(loss_mask) != tokens:
        return None
    written = np.concatenate(([0], (loss_mask != 0).astype(np.int8), [0]))
    edges = np.flatnonzero(np.diff(written)).reshape(-1, 2)
    policy = [at for at, message in enumerate(response) if message["role"] == "assistant"]
    if len(edges) != len(policy) or not policy:
        return None
    spans: list[Span | None] = [None] * len(response)
    for at, (first, last) in zip(policy, edges.tolist(), strict=True):
        spans[at] = (first, last)
    bounds = [0, *edges.ravel().tolist(), tokens]
    for gap, (before, after) in enumerate(zip([-1, *policy], [*policy, len(response)], strict=True)):
        first, last = bounds[2 * gap], bounds[2 * gap + 1]
        if after - before == 2 and last > first:  # exactly one message of somebody else
            spans[before + 1] = (first, last)
    return spans


def _checked(spans: list[Span | None], located: _Located) -> TurnTokens:
    """Return the spans of the mask, with a note if the messages' texts stand somewhere else."""
    differing = sum(
        span is not None and found is not None and (found[0] >= span[1] or found[1] <= span[0])
        for span, found in zip(spans, located.spans, strict=True)
    )
    merged = [span or found for span, found in zip(spans, located.spans, strict=True)]
    if not differing:
        return TurnTokens(merged, "loss mask")
    note = tr(
        "Tokens are assigned to turns by the loss mask. The texts of {differing} of "
        "{spans} messages stand at other tokens.",
        differing=differing,
        spans=len(spans),
    )
    return TurnTokens(spans, "loss mask", note)


class _Located:
    """Places of the messages' texts in the text of the tokens."""

    def __init__(self, response: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> None:
        self._ends = np.cumsum([len(text) for text in texts])
        self._text = "".join(texts)
        self._position = 0
        self.spans = [self._find(message) for message in response]

    def result(self) -> TurnTokens:
        """Return the spans, with a note if some are missing."""
        missing = sum(span is None for span in self.spans)
        if missing == len(self.spans):
            note = tr("Tokens cannot be assigned to turns: the tokens do not contain the messages' texts.")
            return TurnTokens(self.spans, "", note)
        if missing:
            note = tr(
                "The tokens of {missing} of {spans} messages are not known: their texts do not "
                "occur in the tokens.",
                missing=missing,
                spans=len(self.spans),
            )
            return TurnTokens(self.spans, "texts", note)
        return TurnTokens(self.spans, "texts")

    def _find(self, message: Mapping[str, Any]) -> Span | None:
        calls = [f"{call['name']}\0{call['arguments']}" for call in message.get("tool_calls", ())]
        parts = [message.get("reasoning_content", ""), message["content"], *"\0".join(calls).split("\0")]
        first = last = -1
        position = self._position
        for part in (part.strip() for part in parts):
            start = self._text.find(part[:_SEARCHED], position) if part else -1
            if start < 0:
                continue
            end = self._text.find(part[-_SEARCHED:], start + max(0, len(part) - 2 * _SEARCHED))
            position = start + len(part) if end < 0 else end + len(part[-_SEARCHED:])
            first, last = (start if first < 0 else first), position
        if first < 0:
            return None
        self._position = last
        tokens = np.searchsorted(self._ends, [first, last - 1], "right")
        return int(tokens[0]), int(tokens[1]) + 1
