"""Special tokens, padding and parts of chat templates inside response texts.

Such strings belong between texts. In a response they show a wrong template, stop token or decoding, or
a policy that goes on with the next turn. Tokens that structure an answer do not count: thoughts, tool calls,
answers and channels (``<think>``, ``<tool_call>``, ``<|channel|>``). Placeholders of images, video and audio
(``<|image_pad|>``) do not count either, because they stand for what a tool returned.

Detects that a response repeats a long part of its prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain, compress, repeat
from operator import contains, itemgetter

import numpy as np

from rlpanel.metrics.engine.ragged import empty_for_none, missing, text_lengths

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
_ANGLE_BYTE, _BRACKET_BYTE = b"<["
#: About so many bytes are searched at a time, so that they stay in the processor's cache.
BYTES_AT_ONCE = 1 << 18
_STRUCTURE = re.compile("|".join(STRUCTURE), re.IGNORECASE)
#: Between two messages of one answer in OpenAI's Harmony format.
_NEXT_MESSAGE = re.compile(r"<\|end\|>\s*<\|start\|>assistant")


def special_token_counts(
    texts: Sequence[str | None], encoded: Sequence[bytes] | None = None, at_once: int = BYTES_AT_ONCE
) -> np.ndarray:
    """Return the number of special tokens in each of N responses, shape (N,); NaN for None.

    One token of `ENDS` at the very end of a response does not count; padding after it does.

    Parameters
    ----------
    texts : sequence of str or None, length N
    encoded : sequence of bytes, optional
        The texts in UTF-8, if the caller has encoded them already; empty for None.
    at_once : int
        Number of bytes that are searched at a time, about.
    """
    known, counts = empty_for_none(texts), np.zeros(len(texts))
    if encoded is None:
        encoded = list(map(str.encode, known, repeat("utf-8"), repeat("surrogatepass")))
    for row in _rows_to_search(encoded, at_once):
        text = known[row]
        if _ANGLE.search(text) or _BRACKET.search(text):
            counts[row] = _count(text)
    counts[missing(texts)] = np.nan
    return counts


def _rows_to_search(encoded: Sequence[bytes], at_once: int) -> Iterator[int]:
    """Yield the rows of the texts in which a special token seems to begin.

    A token's first three bytes are compared, in many texts at once: a pattern is searched at a twentieth of
    the speed.
    """
    ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)) + 1)
    first = 0
    while first < len(encoded):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + at_once, side="right")))
        if ends[last - 1] - before > 2 * at_once:  # a long text is searched without a copy
            yield first
        else:
            found = _token_starts(np.frombuffer(b"\n".join([*encoded[first:last], b"\n"]), np.uint8))
            rows = np.searchsorted(ends[first:last], before + found, side="right")
            yield from (first + np.unique(rows)).tolist()
        first = last


def _token_starts(text: np.ndarray) -> np.ndarray:
    """Return the positions of the bytes at which a special token seems to begin; two bytes follow each."""
    is_angle = text == _ANGLE_BYTE
    at = np.flatnonzero(is_angle | (text == _BRACKET_BYTE))
    next_two = (text[at + 1].astype(np.intp) << 8) | text[at + 2]
    return at[_begins()[is_angle[at].astype(np.intp), next_two]]


@cache
def _begins() -> np.ndarray:
    """Return which two bytes follow ``[`` (row 0) and ``<`` (row 1) in a token, shape (2, 65536)."""
    begins = np.zeros((2, 1 << 16), np.bool_)
    for token in (*chain.from_iterable(TOKENS.values()), "<｜"):
        first, *next_two = token.encode()[:3]
        begins[int(first == _ANGLE_BYTE), int.from_bytes(bytes(next_two))] = True
    begins[1, ord("|") << 8 : (ord("|") + 1) << 8] = True
    return begins


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


#: Prompts with fewer characters are too short: an equal text may be chance.
MIN_PROMPT = 32
#: Least and greatest length of the second half of a prompt, in characters.
MIN_HALF, MAX_HALF = 64, 256
#: A longer prompt is not searched for special tokens before its last characters.
_SEARCHED = 4 * MAX_HALF
#: Characters that are rare in texts about mathematics and code, and others that are not common.
_RARE, _UNCOMMON = re.compile("[~Z?QXJKU@VYq!&;Gjz%#]"), re.compile("[^ a-y,.]")


def prompt_echoes(prompts: Sequence[str | None], responses: Sequence[str | None]) -> np.ndarray:
    """Return 1 for responses that contain the second half of their prompt verbatim, 0 for others.

    Of a prompt with special tokens, this is the last text between them, such as the user's turn. The half
    is at least 64 characters long, or the whole prompt, and at most 256. So a response that repeats only
    the last sentence of a question does not count.

    Parameters
    ----------
    prompts, responses : sequences of str or None, length N

    Returns
    -------
    ndarray of float, shape (N,)
        NaN if a text is missing, or if the prompt has fewer than 32 characters.
    """
    asked, texts = empty_for_none(prompts), empty_for_none(responses)
    tells = text_lengths(asked) >= MIN_PROMPT
    rows = np.flatnonzero(tells & (text_lengths(texts) >= MIN_PROMPT)).tolist()
    # The samples of a group share a prompt.
    sought = {prompt: _sought(prompt[-_SEARCHED:]) for prompt in dict.fromkeys(map(asked.__getitem__, rows))}
    pairs = [sought[asked[row]] for row in rows]
    # A single character is found ten times as fast as a long text, and most responses lack a rare one.
    maybe = map(contains, map(texts.__getitem__, rows), map(itemgetter(1), pairs))
    echoes = np.zeros(len(texts))
    for row, (half, _) in compress(zip(rows, pairs, strict=True), maybe):
        echoes[row] = half != "" and half in texts[row]
    echoes[missing(responses) | ~tells] = np.nan
    return echoes


@lru_cache(maxsize=1024)
def _sought(prompt: str) -> tuple[str, str]:
    """Return the end of a prompt, empty if the prompt is short, and a rare character of that end."""
    text = last_between_special_tokens(prompt, MIN_PROMPT)
    half = text[-min(max(len(text) // 2, MIN_HALF), MAX_HALF) :]
    if not half.isascii():
        return half, max(half)
    rare = _RARE.search(half) or _UNCOMMON.search(half)
    return half, rare[0] if rare else half[:1]
