"""Special tokens, padding and parts of chat templates inside response texts.

Such strings belong between texts. In a response they tell of a wrong template, stop token or decoding, or of
a policy that goes on with the next turn. Tokens that structure an answer do not count: thoughts, tool calls,
answers and channels (``<think>``, ``<tool_call>``, ``<|channel|>``). Placeholders of images, video and audio
(``<|image_pad|>``) do not count either, because they stand for what a tool returned.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import compress, repeat
from operator import contains

import numpy as np

from rlpanel.metrics.engine.text_batch import empty_for_none, missing

#: Special tokens by the models that use them, besides all strings ``<|…|>`` and ``<｜…｜>`` of up to 40
#: characters, such as ``<|im_start|>`` (Qwen), ``<|eot_id|>`` (Llama 3), ``<｜User｜>`` (DeepSeek).
TOKENS: dict[str, tuple[str, ...]] = {
    "Llama 2, Mistral": ("<s>", "</s>", "<unk>", "<pad>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>"),
    "Mistral": ("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    "Gemma": ("<bos>", "<eos>", "<mask>", "<start_of_turn>", "<end_of_turn>", "<|turn>", "<turn|>"),
    "BERT": ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    "Kimi": ("[BOS]", "[EOS]"),
    "GLM": ("[gMASK]", "<sop>", "<eop>"),
}
#: Tokens that end a response. One of them at its very end is normal, if special tokens are decoded.
ENDS = frozenset(
    {
        *("</s>", "<eos>", "<end_of_turn>", "<turn|>", "[EOS]", "<eop>"),
        *("<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|eom|>"),
        *("<|end|>", "<|return|>", "<|call|>", "<|eos|>", "<|end_of_turn|>", "<|endofturn|>"),
        *("<|END_OF_TURN_TOKEN|>", "<|end_of_sentence|>", "<｜end▁of▁sentence｜>"),
        *("<|user|>", "<|observation|>"),  # GLM ends a turn with the role of the next one
    }
)
#: Words in the names of tokens ``<|…|>`` that structure an answer or stand for a medium.
STRUCTURE = (
    *("think", "thought", "reason", "solution", "answer", "response", "action", "tool", "python", "channel"),
    *("message", "constrain", "box", "quad", "object_ref", "image", "img", "vision", "video", "audio"),
)


def _pattern(first: str, *more: str) -> re.Pattern[str]:
    """Return the pattern of the tokens with a first character; a literal beginning is searched fast."""
    tokens = [token[1:] for tokens in TOKENS.values() for token in tokens if token[0] == first]
    return re.compile(f"{re.escape(first)}(?:{'|'.join((*more, *map(re.escape, tokens)))})")


_ANGLE = _pattern("<", r"\|[^|<>\s]{1,40}\|>", r"｜[^｜<>\s]{1,40}｜>")
_BRACKET = _pattern("[")
_STRUCTURE = re.compile("|".join(STRUCTURE), re.IGNORECASE)
#: Between two messages of one answer in OpenAI's Harmony format.
_NEXT_MESSAGE = re.compile(r"<\|end\|>\s*<\|start\|>assistant")


def special_token_counts(texts: Sequence[str | None]) -> np.ndarray:
    """Return the number of special tokens in each of N responses, shape (N,); NaN for None.

    One token of `ENDS` at the very end of a response does not count; padding after it does.
    """
    known, counts = empty_for_none(texts), np.zeros(len(texts))
    for first, search in (("<", _ANGLE.search), ("[", _BRACKET.search)):
        some = list(compress(range(len(known)), map(contains, known, repeat(first))))
        for row in compress(some, map(search, [known[row] for row in some])):
            counts[row] = _count(known[row])
    counts[missing(texts)] = np.nan
    return counts


def last_between_special_tokens(text: str, shortest: int) -> str:
    """Return the last part between special tokens, of any kind, that has ``shortest`` characters.

    Spaces around a part do not count and are left out. Returns an empty text if no part is long enough.
    """
    for part in reversed(_ANGLE.split(text) if "<" in text else [text]):
        if len(part) >= shortest:
            for piece in reversed(_BRACKET.split(part) if "[" in part else [part]):
                stripped = piece.strip()
                if len(stripped) >= shortest:
                    return stripped
    return ""


def _count(text: str) -> float:
    if "<|start|>" in text:
        text = _NEXT_MESSAGE.sub("", text)
    ends = [match.end() for match in _BRACKET.finditer(text)] if "[" in text else []
    for match in _ANGLE.finditer(text):
        token = match.group()
        if token[1] not in "|｜" or not _STRUCTURE.search(token):
            ends.append(match.end())
    if not ends:
        return 0.0
    begun = text[: max(ends)]
    ended = begun.endswith(_ENDS) and len(begun) == len(text.rstrip())
    return float(len(ends) - ended)


_ENDS = tuple(ENDS)
