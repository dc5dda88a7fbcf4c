"""Case-insensitive byte search in blocks of a log: a vectorised pass for the rarest bytes, then exact checks.

Case is ignored by folding: callers fold needles with `fold_bytes`, and the search folds each block in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

#: Number of bytes of a block that are sampled to estimate byte frequencies.
SAMPLE = 1 << 16
#: Share of candidate positions below which the rest of the needle is checked at the candidates only.
SPARSE = 1 / 4096
#: Number of needle bytes that are compared. The few false matches this allows are parsed and rejected later.
MAX_NEEDLE = 64

_ESCAPE = b"\\u00"  # sought before folding, which maps a backslash to the bar of special tokens
_DIGITS = 2


class ByteSearch:
    r"""Searches blocks of a file for several needles at once.

    Parameters
    ----------
    needles : sequence of bytes
        Folded byte strings; a line that contains any of them is a candidate.
    letters : iterable of str
        ASCII characters of the needles. A writer may escape them (``\u0071``), though no known one does. A
        line with such an escape is always a candidate, so that needles need not be sought in escaped
        spellings.
    """

    def __init__(self, needles: Sequence[bytes], letters: Iterable[str] = ()) -> None:
        self._needles = [needle[:MAX_NEEDLE] for needle in needles]
        codes = {
            fold_bytes(b"%02x" % ord(case)) for letter in letters for case in (letter.lower(), letter.upper())
        }
        self._codes = np.zeros(1 << 16, bool)
        self._codes[[int.from_bytes(code, "big") for code in codes]] = True
        self._escapes = bool(codes)
        self._logged: np.ndarray | None = None
        self._folded: np.ndarray | None = None

    def positions(self, block: np.ndarray) -> np.ndarray:
        """Return the positions of candidates in a block, in no particular order.

        Parameters
        ----------
        block : ndarray of uint8, shape (N,)
            Is folded in place.

        Returns
        -------
        ndarray of int, shape (M,)
        """
        positions = []
        if self._escapes:
            self._logged = _frequencies(block) if self._logged is None else self._logged
            positions.append(self._find_escapes(block, self._logged))
        np.bitwise_or(block, 0x20, out=block)
        self._folded = _frequencies(block) if self._folded is None else self._folded
        positions += [_find(block, needle, self._folded) for needle in self._needles]
        return np.concatenate(positions)

    def _find_escapes(self, block: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        r"""Return the positions of JSON escapes (``\u00xx``) of the needles' letters."""
        positions = _find(block[: max(0, len(block) - _DIGITS)], _ESCAPE, frequencies)
        digits = positions + len(_ESCAPE)
        folded = block[digits] | 0x20, block[digits + 1] | 0x20
        return positions[self._codes[folded[0].astype(np.uint16) << 8 | folded[1]]]


def fold_bytes(text: bytes) -> bytes:
    """Map upper and lower case to the same byte by setting bit 0x20; some other bytes coincide too."""
    return bytes(byte | 0x20 for byte in text)


def _frequencies(block: np.ndarray) -> np.ndarray:
    """Return the share of each byte in some of a block's bytes."""
    sample = block[:: max(1, len(block) // SAMPLE)]
    return np.bincount(sample, minlength=256) / max(1, len(sample))


def _find(block: np.ndarray, needle: bytes, frequencies: np.ndarray) -> np.ndarray:
    """Return the positions at which a needle begins, comparing its rarest bytes first."""
    room = len(block) - len(needle) + 1
    if room <= 0:
        return np.empty(0, np.intp)
    rarest: Iterator[int] = iter(sorted(range(len(needle)), key=lambda offset: frequencies[needle[offset]]))
    first = next(rarest)
    matches, share = block[first : first + room] == needle[first], frequencies[needle[first]]
    for offset in rarest:
        if share < SPARSE:
            break
        np.logical_and(matches, block[offset : offset + room] == needle[offset], out=matches)
        share *= frequencies[needle[offset]]
    if not matches.any():  # several times faster than listing no positions
        return np.empty(0, np.intp)
    positions = np.flatnonzero(matches)
    for offset, byte in enumerate(needle):
        if not len(positions):
            break
        positions = positions[block[positions + offset] == byte]
    return positions
