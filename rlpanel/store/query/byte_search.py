"""Case-insensitive byte search in blocks of a log: a vectorised pass for the rarest bytes, then exact checks.

Case is ignored by folding: callers fold a block with `fold_block` and needles with `fold_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

#: Number of bytes of a block that are sampled to estimate byte frequencies.
SAMPLE = 1 << 16
#: Share of candidate positions below which the rest of the needle is checked at the candidates only.
SPARSE = 1 / 256
#: Number of needle bytes that are compared. The few false matches this allows are parsed and rejected later.
MAX_NEEDLE = 64

_ESCAPE = b"|u00"  # folding maps a backslash and a bar to the same byte
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
        self._frequencies: np.ndarray | None = None

    def positions(self, block: np.ndarray) -> np.ndarray:
        """Return the positions of candidates in a block, in no particular order.

        Parameters
        ----------
        block : ndarray of uint8, shape (N,)
            Folded.

        Returns
        -------
        ndarray of int, shape (M,)
        """
        if self._frequencies is None:
            sample = block[:: max(1, len(block) // SAMPLE)]
            self._frequencies = np.bincount(sample, minlength=256) / max(1, len(sample))
        positions = [_find(block, needle, self._frequencies) for needle in self._needles]
        if self._escapes:
            positions.append(self._find_escapes(block, self._frequencies))
        return np.concatenate(positions)

    def _find_escapes(self, block: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        r"""Return the positions of JSON escapes (``\u00xx``) of the needles' letters."""
        positions = _find(block[: max(0, len(block) - _DIGITS)], _ESCAPE, frequencies)
        digits = positions + len(_ESCAPE)
        return positions[self._codes[block[digits].astype(np.uint16) << 8 | block[digits + 1]]]


def fold_bytes(text: bytes) -> bytes:
    """Map upper and lower case to the same byte by setting bit 0x20; some other bytes coincide too."""
    return bytes(byte | 0x20 for byte in text)


def fold_block(block: np.ndarray) -> None:
    """Fold a block in place, as `fold_bytes` does."""
    np.bitwise_or(block, 0x20, out=block)


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
    positions = np.flatnonzero(matches)
    for offset, byte in enumerate(needle):
        if not len(positions):
            break
        positions = positions[block[positions + offset] == byte]
    return positions
