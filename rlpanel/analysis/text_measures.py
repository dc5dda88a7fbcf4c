"""Numbers and phrases of the texts of one sample, for rules on texts.

Digits are masked in phrases, so that phrases with other numbers are the same phrase.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from rlpanel.analysis.text_features import words_of
from rlpanel.texts.final_answers import EQUAL, UNCLEAR, AnswerRule, answer_of, match_of

#: Words of a phrase, and of a sequence whose repetition is a loop.
WORDS, _LOOP_WORDS = 3, 4
#: Characters at the ends of a prompt that show its template.
_BEGIN, _END = 24, 12
#: Most characters of a text that are used, half of them from its end; and those that find it in the tokens.
_MAX_CHARS, _FOUND_BY = 2000, 40
#: Letters of a word of a prompt that its response may take up, fewest such words, and the prompts that are
#: kept: all samples of a group have one.
_LETTERS, _MIN_PROMPT_WORDS, _PROMPTS = 4, 5, 256
#: Equal calls of a rollout that are a repetition.
_EQUAL_CALLS = 3
#: Kinds of phrases.
KINDS = ("response", "result", "prompt begin", "prompt end")

_DIGITS = re.compile(r"\d+")
_BOXED = re.compile(r"\\boxed\s*\{")

Texts = Mapping[str, Any]
Messages = Sequence[Mapping[str, Any]]


def response_words(texts: Texts) -> list[str]:
    """Return the words of a response, of a long one those of its begin and of its end."""
    return words_of(_ends(texts.get("response") or ""))


def numbers_of(texts: Texts, words: Sequence[str], rule: AnswerRule | None = None) -> dict[str, float]:
    """Return the numbers of a sample's texts.

    Parameters
    ----------
    texts : mapping
        ``prompt``, ``response``, ``ground_truth``; of agents also ``messages``, ``tokens`` and ``loss_mask``.
    words : sequence of str
        Result of `response_words`.
    rule : AnswerRule, optional
        Reads the answer of the response.

    Returns
    -------
    dict of str to float
        ``loops``: share of the sequences of four words that occurred before in the response; ``boxes``: boxed
        answers; ``prompt_words``: share of the prompt's longer words that the response has;
        ``truth_missing``, ``truth_in_prompt``: 0 or 1; ``truth_chars``: logarithm. With a rule
        ``match``: 1 if the answer equals the truth, 0 if it differs, and ``unclear``: 1 if neither is sure.
        Of agents see `numbers_of_messages`.
    """
    response, prompt, truth = (texts.get(name) or "" for name in ("response", "prompt", "ground_truth"))
    truth = truth.strip()
    found = {"loops": loop_share(words), "boxes": float(len(_BOXED.findall(response)))}
    if "ground_truth" in texts:
        is_missing = not truth or truth.lower() in ("none", "nan", "null")
        found["truth_missing"] = float(is_missing)
        if not is_missing:
            found["truth_chars"] = math.log(len(truth))
            if rule is not None:
                match = match_of(answer_of(response, rule), truth)
                found["unclear"] = float(match == UNCLEAR)
                if match != UNCLEAR:
                    found["match"] = float(match == EQUAL)
    if len(truth) > 1:
        found["truth_in_prompt"] = float(has_word(prompt, truth))
    asked = _prompt_words(_ends(prompt))
    if len(asked) >= _MIN_PROMPT_WORDS:
        found["prompt_words"] = len(asked.intersection(words)) / len(asked)
    return found | numbers_of_messages(texts, truth)


@lru_cache(maxsize=_PROMPTS)
def _prompt_words(prompt: str) -> frozenset[str]:
    """Return the longer words of a prompt."""
    return frozenset(word for word in words_of(prompt) if len(word) >= _LETTERS)


def numbers_of_messages(texts: Texts, truth: str) -> dict[str, float]:
    """Return the numbers of an agent's messages; none without messages.

    Returns
    -------
    dict of str to float
        ``unanswered``: 1 if the last message is not a text of the policy; ``empty_results`` (share),
        ``equal_calls`` (1 if three calls or more are equal), ``result_chars`` (logarithm of the mean),
        ``truth_in_results``; with tokens and a loss mask the shares ``trained_results`` and
        ``untrained_turns``.
    """
    messages: Messages = texts.get("messages") or ()
    calls, results = calls_and_results(messages)
    found: dict[str, float] = {}
    if len(messages) > 1:
        last = messages[-1]
        found["unanswered"] = float(last.get("role") != "assistant" or not text_of(last).strip())
    if results:
        found |= {
            "empty_results": sum(not result.strip() for result in results) / len(results),
            "result_chars": math.log(max(sum(map(len, results)) / len(results), 1.0)),
        }
        if len(truth) > 1:
            found["truth_in_results"] = float(any(has_word(result, truth) for result in results))
        found |= mask_by_role(messages, texts.get("tokens"), texts.get("loss_mask"))
    if len(calls) > 1:
        found["equal_calls"] = float(Counter(calls).most_common(1)[0][1] >= _EQUAL_CALLS)
    return found


def loop_share(words: Sequence[str]) -> float:
    """Return the share of the sequences of four words that occurred before in the same text."""
    sequences = list(zip(*(words[at:] for at in range(_LOOP_WORDS)), strict=False))
    return 1 - len(set(sequences)) / len(sequences) if sequences else 0.0


def has_word(text: str, word: str) -> bool:
    """Return True if the text contains the word, not as a part of a longer one."""
    at = text.find(word)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(word) : at + len(word) + 1]
        if not (before.isalnum() and word[0].isalnum()) and not (after.isalnum() and word[-1].isalnum()):
            return True
        at = text.find(word, at + 1)
    return False


def text_of(message: Mapping[str, Any]) -> str:
    """Return the content of a message as a text."""
    content = message.get("content")
    return content if isinstance(content, str) else str(content or "")


def calls_and_results(messages: Messages) -> tuple[list[str], list[str]]:
    """Return the calls of tools, with their arguments, and the results, as texts."""
    calls = [
        f"{call.get('name')} {call.get('arguments')}"
        for message in messages
        for call in message.get("tool_calls") or ()
    ]
    return calls, [text_of(message) for message in messages if message.get("role") == "tool"]


def mask_by_role(
    messages: Messages, tokens: Sequence[str] | None, mask: np.ndarray | None
) -> dict[str, float]:
    """Return the shares of results whose first token is in the loss, and of turns whose first token is not.

    Messages that the tokens do not hold do not count; without any, there is no number.
    """
    if tokens is None or mask is None or len(tokens) != len(mask):
        return {}
    text, ends = "".join(tokens), np.cumsum([len(token) for token in tokens])
    at = 0
    trained: dict[str, list[bool]] = {"tool": [], "assistant": []}
    for message in messages:
        role, content = message.get("role", ""), text_of(message).strip()[:_FOUND_BY]
        found = text.find(content, at) if content and role in trained else -1
        if found >= 0:
            trained[role].append(float(mask[int(np.searchsorted(ends, found, side="right"))]) > 0)
            at = found + 1
    shares = {}
    if trained["tool"]:
        shares["trained_results"] = sum(trained["tool"]) / len(trained["tool"])
    if trained["assistant"]:
        shares["untrained_turns"] = 1 - sum(trained["assistant"]) / len(trained["assistant"])
    return shares


def repeated_results(samples: Sequence[Texts | None]) -> list[float]:
    """Return for each sample the share of its results that another call of the step has, too; NaN without."""
    calls_of: dict[str, set[str]] = {}
    pairs = [
        calls_and_results(texts.get("messages") or ()) if texts is not None else ([], []) for texts in samples
    ]
    for calls, results in pairs:
        for call, result in zip(calls, results, strict=False):
            calls_of.setdefault(result, set()).add(call)
    return [
        sum(len(calls_of.get(result, ())) > 1 for result in results) / len(results) if results else np.nan
        for _, results in pairs
    ]


@dataclass(frozen=True)
class SamplePhrases:
    """Phrases of a text.

    Attributes
    ----------
    keys : ndarray of uint32, shape (P,)
        Hash of each phrase, in the order of the text.
    words : sequence of str
        The words; the phrase at a position begins with the word there.
    """

    keys: np.ndarray
    words: Sequence[str]

    def text(self, at: int) -> str:
        """Return the phrase at a position, with masked digits."""
        return _masked(" ".join(self.words[at : at + WORDS]))


def phrases_of(texts: Texts, words: Sequence[str]) -> dict[str, SamplePhrases]:
    """Return the phrases of a sample by kind; the words are those of its response."""
    prompt = _masked(texts.get("prompt") or "")
    _, results = calls_and_results(texts.get("messages") or ())
    return {
        "response": _of_words(words),
        "result": _of_words(words_of(_ends("\n".join(results))) if results else ()),
        "prompt begin": _of_text(prompt[:_BEGIN]),
        "prompt end": _of_text(prompt[-_END:]),
    }


#: Odd numbers with well mixed bits.
_MIX, _MIX_2 = np.uint32(0x9E3779B1), np.uint32(0x85EBCA6B)


def _of_words(words: Sequence[str]) -> SamplePhrases:
    keys = np.fromiter(map(_key_of, words), np.uint32, len(words))
    if len(words) < WORDS:
        return SamplePhrases(keys[:0], words)
    return SamplePhrases((keys[:-2] * _MIX + keys[1:-1]) * _MIX_2 + keys[2:], words)


def _of_text(text: str) -> SamplePhrases:
    return SamplePhrases(np.array([_key_of(text)], np.uint32), [text])


def _masked(text: str) -> str:
    return _DIGITS.sub("0", text)


@lru_cache(maxsize=1 << 16)
def _key_of(text: str) -> int:
    return zlib.crc32(_masked(text).encode(errors="replace"))


def _ends(text: str) -> str:
    half = _MAX_CHARS // 2
    return text if len(text) <= _MAX_CHARS else f"{text[:half]}\n{text[-half:]}"


class Phrases:
    """Phrases of some samples of a step, by their hash, and which of the samples have each.

    Parameters
    ----------
    samples : sequence of SamplePhrases or None
        Those of each sample, at most 16; None for one that could not be read.

    Attributes
    ----------
    keys : ndarray of uint32, shape (P,)
        Ascending.
    holders : ndarray of uint16, shape (P,)
        A bit for each sample.
    counts : ndarray of uint8, shape (P,)
        Number of samples that have each phrase.
    """

    def __init__(self, samples: Sequence[SamplePhrases | None]) -> None:
        known = {at: sample.keys for at, sample in enumerate(samples) if sample is not None}
        held = np.concatenate([np.empty(0, np.uint32), *known.values()])
        bits = np.repeat(
            [np.uint16(1 << at) for at in known] or np.empty(0, np.uint16),
            [len(keys) for keys in known.values()],
        )
        order = np.argsort(held, kind="stable")
        held = held[order]
        starts = np.flatnonzero(np.append(True, held[1:] != held[:-1])[: len(held)])
        self.keys = held[starts]
        self.holders = np.bitwise_or.reduceat(bits[order], starts) if len(starts) else np.empty(0, np.uint16)
        self.counts = np.bitwise_count(self.holders)

    def words(self, samples: Sequence[SamplePhrases | None], least: int, most: int) -> dict[int, str]:
        """Return the texts of the phrases that at least so many samples have, by their hash."""
        chosen = np.flatnonzero(self.counts >= least)[:most]
        if not len(chosen):
            return {}
        known = [sample for sample in samples if sample is not None]
        ends = np.cumsum([len(sample.keys) for sample in known])
        # The keys of all samples are those of this step, so they have the same order.
        places = np.unique(np.concatenate([sample.keys for sample in known]), return_index=True)[1][chosen]
        found: dict[int, str] = {}
        for key, place, at in zip(
            self.keys[chosen].tolist(),
            places.tolist(),
            np.searchsorted(ends, places, side="right").tolist(),
            strict=True,
        ):
            found[key] = known[at].text(place - int(ends[at]) + len(known[at].keys))
        return found

    def of(self, keys: np.ndarray) -> np.ndarray:
        """Return the holders of some phrases; 0 for those that no sample has."""
        if not len(self.keys):
            return np.zeros(len(keys), np.uint16)
        at = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.holders[at], 0).astype(np.uint16)
