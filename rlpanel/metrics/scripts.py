"""Scripts of texts, such as Latin and Han, and the share of a response in scripts foreign to its prompt."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import repeat

import numpy as np

from rlpanel.metrics.engine.ragged import empty_for_none, text_lengths

#: Scripts by the first and the last code points of the Unicode blocks with their letters; the last entry of a
#: code point counts. Up to U+FFFF, letters are those of ``str.isalpha``, also outside of these blocks.
SCRIPTS: dict[str, tuple[tuple[int, int], ...]] = {
    # The letters of formulas, such as ``𝑥`` and ``ℝ``, and wide letters are Latin, too.
    "Latin": (
        *((0x41, 0x2FF), (0x1D00, 0x1DBF), (0x1E00, 0x1EFF), (0x2070, 0x209C), (0x2100, 0x218F)),
        *((0x2C60, 0x2C7F), (0xA720, 0xA7FF), (0xAB30, 0xAB6F), (0xFB00, 0xFB06), (0xFF21, 0xFF5A)),
        *((0x10780, 0x107BF), (0x1D400, 0x1D6A7), (0x1DF00, 0x1DFFF)),
    ),
    "Greek": ((0xB5, 0xB5), (0x370, 0x3FF), (0x1F00, 0x1FFF), (0x2126, 0x2126), (0x1D6A8, 0x1D7CB)),
    "Cyrillic": ((0x400, 0x52F), (0x1C80, 0x1C8F), (0xA640, 0xA69F), (0x1E030, 0x1E08F)),
    "Hebrew": ((0x590, 0x5FF), (0xFB1D, 0xFB4F)),
    "Arabic": ((0x600, 0x6FF), (0x750, 0x77F), (0x870, 0x8FF), (0xFB50, 0xFDFF), (0xFE70, 0xFEFF)),
    "Devanagari": ((0x900, 0x97F), (0xA8E0, 0xA8FF)),
    "Thai": ((0xE00, 0xE7F),),
    "Kana": ((0x3031, 0x3035), (0x303C, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F), (0x1AFF0, 0x1B16F)),
    "Han": (
        *((0x3005, 0x3007), (0x303B, 0x303B), (0x3100, 0x312F), (0x31A0, 0x31BF), (0x3400, 0x4DBF)),
        *((0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF)),
    ),
    "Hangul": ((0x1100, 0x11FF), (0x3130, 0x318F), (0xA960, 0xA97F), (0xAC00, 0xD7FF), (0xFFA0, 0xFFDC)),
    "other script": ((0x10000, 0x1077F), (0x107C0, 0x1AFEF), (0x1B170, 0x1CFFF), (0x1E100, 0x1E95F)),
}
#: Of a long text, so many characters at its beginning and at its end are counted.
MAX_CHARS = 500
#: A script with a smaller share of the prompt's letters is foreign to it.
FOREIGN_BELOW = 0.05
#: The same for Latin, and which share of a response's letters must then be Latin, and how many.
LATIN_BELOW, NEARLY_ALL, MIN_LETTERS = 0.3, 0.9, 20

_NAMES = tuple(SCRIPTS)
_LATIN, _KANA, _HAN = map(_NAMES.index, ("Latin", "Kana", "Han"))
_OTHER, _NO_LETTER = len(SCRIPTS) - 1, len(SCRIPTS)
#: The code point after that of the last letter; higher ones are clipped to it.
_BEYOND = 0x323B0
_LETTER = re.compile("[A-Za-z]")
#: Looked up when the module is imported, and not within a request.
_UTF_32 = codecs.lookup("utf-32-le")
#: About so many characters are counted at a time, so that arrays stay in the processor's cache.
_SLICE = 1 << 14
#: Two groups of scripts whose letters are counted in the bits of one number, `_BITS` for each script. The
#: first has the most frequent ones; the second has all others, which the first counts together.
_GROUPS = (np.array([_LATIN, 1, 2, _KANA, _HAN]), np.array([3, 4, 5, 6, 9, _OTHER]))
_BITS = 10
_FIELDS = np.arange(6, dtype=np.uint64) * np.uint64(_BITS)
_MAX_RUN = (1 << _BITS) - 1


def script_counts(texts: Sequence[str]) -> np.ndarray:
    """Return the number of letters of each of the S scripts in each of N texts, shape (N, S)."""
    lengths = text_lengths(texts)
    counts = np.zeros((len(texts), len(SCRIPTS)), np.int64)
    for row in np.flatnonzero(lengths > _MAX_RUN).tolist():
        scripts = _script_of().take(_code_points(texts[row]), mode="clip")
        counts[row] = np.bincount(scripts, minlength=len(SCRIPTS) + 1)[:_NO_LETTER]
    for rows, starts, points in _slices(
        texts, np.flatnonzero((lengths > 0) & (lengths <= _MAX_RUN)), lengths
    ):
        found = _count_group(0, points, starts)
        counts[np.ix_(rows, _GROUPS[0])] = found[:, :-1]
        if found[:, -1].any():
            counts[np.ix_(rows, _GROUPS[1])] = _count_group(1, points, starts)
    return counts


def foreign_shares(prompts: Sequence[str | None], responses: Sequence[str | None]) -> np.ndarray:
    """Return the share of a response's letters in scripts that make up less than 5% of its prompt's letters.

    Latin letters are foreign only if they make up less than 30% of the prompt's letters and nearly all of the
    response's, since answers in all languages contain code, formulas and names. Kana and Han are one script,
    as in Japanese. To a prompt without letters, all scripts but Latin are foreign. Of a text of more than
    1,000 characters, the first and the last 500 count.

    Parameters
    ----------
    prompts, responses : sequences of str or None, length N

    Returns
    -------
    ndarray of float, shape (N,)
        NaN without a prompt or without letters in the response.
    """
    number = {prompt: at for at, prompt in enumerate(dict.fromkeys(prompts))}  # groups share a prompt
    at = np.fromiter(map(number.__getitem__, prompts), np.intp, len(prompts))
    asked, texts = _ends(empty_for_none(list(number))), empty_for_none(responses)
    foreign = _foreign_scripts(asked)[at]
    ascii_text = np.fromiter(map(str.isascii, texts), np.bool_, len(texts))
    shares = np.full(len(texts), np.nan)
    own = np.flatnonzero(ascii_text & ~foreign[:, _LATIN])
    shares[own[_have_letters([texts[row] for row in own.tolist()])]] = 0.0
    counted = np.flatnonzero(~ascii_text | foreign[:, _LATIN])
    if len(counted):
        shares[counted] = _shares(_ends([texts[row] for row in counted.tolist()]), foreign[counted])
    shares[(text_lengths(asked) == 0)[at]] = np.nan
    return shares


def _have_letters(texts: Sequence[str]) -> np.ndarray:
    """Return a mask of the ASCII texts with a letter among the characters that count."""
    found = np.fromiter(map(bool, map(_LETTER.search, texts, repeat(0), repeat(MAX_CHARS))), np.bool_)
    for row in np.flatnonzero(~found).tolist():
        found[row] = _LETTER.search(texts[row], max(0, len(texts[row]) - MAX_CHARS)) is not None
    return found


def _ends(texts: Sequence[str]) -> list[str]:
    """Return the characters of texts that count."""
    return [text if len(text) <= 2 * MAX_CHARS else text[:MAX_CHARS] + text[-MAX_CHARS:] for text in texts]


def _foreign_scripts(prompts: Sequence[str]) -> np.ndarray:
    """Return the mask of the scripts that are foreign to each of N prompts, shape (N, S)."""
    # To an ASCII prompt, all scripts but Latin are foreign.
    foreign = np.tile(np.arange(len(SCRIPTS)) != _LATIN, (len(prompts), 1))
    others = [at for at, prompt in enumerate(prompts) if not prompt.isascii()]
    if not others:
        return foreign
    used = script_counts([prompts[at] for at in others])
    used[:, [_KANA, _HAN]] = used[:, [_KANA, _HAN]].sum(axis=1, keepdims=True)
    total = used.sum(axis=1) - used[:, _KANA]
    foreign[others] = (used == 0) | (used < FOREIGN_BELOW * total[:, None])
    foreign[others, _LATIN] = used[:, _LATIN] < LATIN_BELOW * total
    return foreign


def _shares(texts: Sequence[str], foreign: np.ndarray) -> np.ndarray:
    """Return the share of foreign letters in N texts, for a mask of the foreign scripts of each."""
    used = script_counts(texts)
    letters, latin = used.sum(axis=1), used[:, _LATIN]
    others = foreign.copy()
    others[:, _LATIN] = False
    found = (used * others).sum(axis=1)
    english = foreign[:, _LATIN] & (latin >= NEARLY_ALL * letters) & (latin >= MIN_LETTERS)
    with np.errstate(invalid="ignore"):
        return np.asarray((found + np.where(english, latin, 0)) / letters)


def _slices(
    texts: Sequence[str], rows: np.ndarray, lengths: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield the code points of some texts: the texts' rows, where each text starts, the code points."""
    ends = np.cumsum(lengths[rows])
    first = 0
    while first < len(rows):
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + _SLICE)))
        part = rows[first:last]
        starts = ends[first:last] - lengths[part] - before
        yield part, starts, _code_points("".join([texts[row] for row in part.tolist()]))
        first = last


def _code_points(text: str) -> np.ndarray:
    return np.frombuffer(_UTF_32.encode(text, "surrogatepass")[0], np.int32)


def _count_group(group: int, points: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the number of letters of each script of a group; group 0 has one more for those of group 1."""
    sums = np.add.reduceat(_packed(group).take(points, mode="clip"), starts)
    return (sums[:, None] >> _FIELDS) & np.uint64(_MAX_RUN)


@cache
def _packed(group: int) -> np.ndarray:
    """Return what each code point adds to the packed counts of a group."""
    scripts = _GROUPS[group]
    ones = np.zeros(len(SCRIPTS) + 1, np.uint64)
    ones[scripts] = np.uint64(1) << _FIELDS[: len(scripts)]
    if group == 0:
        ones[_GROUPS[1]] = np.uint64(1) << _FIELDS[-1]
    return ones[_script_of()]


@cache
def _script_of() -> np.ndarray:
    """Return the number of each code point's script, up to `_BEYOND`; `_NO_LETTER` for other characters."""
    scripts = np.full(_BEYOND + 1, _NO_LETTER, np.uint8)
    scripts[: 1 << 16] = _OTHER
    for number, blocks in enumerate(SCRIPTS.values()):
        for first, last in blocks:
            scripts[first : last + 1] = number
    characters = np.arange(1 << 16, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    scripts[: 1 << 16][~np.fromiter(map(str.isalpha, characters), bool)] = _NO_LETTER
    return scripts
