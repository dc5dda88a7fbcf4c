"""Where some bytes stand in a block of a log: one quick pass for the rarest of them, and few places after it.

Upper and lower letters are one: a block is folded by `fold_bytes`, and needles come folded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

#: Bytes of a block that say how common each byte is.
SAMPLE = 1 << 16
#: Share of a block whose places are looked at one by one; above it another byte thins them out first.
FEW = 1 / 256
#: Bytes of a needle that are compared: what is longer differs before, or is read anyway.
MOST = 64

_ESCAPE = b"|u00"  # a backslash and a bar are one byte, folded
_DIGITS = 2


class ByteSearch:
    r"""What is sought in a file's blocks.

    Parameters
    ----------
    needles : sequence of bytes
        Folded; a line that holds any of them is of interest.
    letters : iterable of str
        Plain letters and signs of the needles. No known writer escapes one (``\u0071``), so a line that does
        is of interest as it is, and no further way to write a needle is sought.
    """

    def __init__(self, needles: Sequence[bytes], letters: Iterable[str] = ()) -> None:
        self._needles = [needle[:MOST] for needle in needles]
        codes = {
            fold_bytes(b"%02x" % ord(case)) for letter in letters for case in (letter.lower(), letter.upper())
        }
        self._codes = np.zeros(1 << 16, bool)
        self._codes[[int.from_bytes(code, "big") for code in codes]] = True
        self._escapes = bool(codes)
        self._common: np.ndarray | None = None

    def places(self, block: np.ndarray) -> np.ndarray:
        """Where something is found, in no order.

        Parameters
        ----------
        block : ndarray of uint8, shape (N,)
            Folded.

        Returns
        -------
        ndarray of int, shape (M,)
        """
        if self._common is None:
            sample = block[:: max(1, len(block) // SAMPLE)]
            self._common = np.bincount(sample, minlength=256) / max(1, len(sample))
        found = [_find(block, needle, self._common) for needle in self._needles]
        if self._escapes:
            found.append(self._escaped(block, self._common))
        return np.concatenate(found)

    def _escaped(self, block: np.ndarray, common: np.ndarray) -> np.ndarray:
        at = _find(block[: max(0, len(block) - _DIGITS)], _ESCAPE, common)
        digits = at + len(_ESCAPE)
        return at[self._codes[block[digits].astype(np.uint16) << 8 | block[digits + 1]]]


def fold_bytes(text: bytes) -> bytes:
    """Upper and lower letters as the same byte, and some other bytes too."""
    return bytes(byte | 0x20 for byte in text)


def fold_block(block: np.ndarray) -> None:
    """The same to a block, where it stands."""
    np.bitwise_or(block, 0x20, out=block)


def _find(block: np.ndarray, needle: bytes, common: np.ndarray) -> np.ndarray:
    """Where a needle begins; its rarest bytes first, by how common they are."""
    room = len(block) - len(needle) + 1
    if room <= 0:
        return np.empty(0, np.intp)
    rarest: Iterator[int] = iter(sorted(range(len(needle)), key=lambda at: common[needle[at]]))
    first = next(rarest)
    held, share = block[first : first + room] == needle[first], common[needle[first]]
    for at in rarest:
        if share < FEW:
            break
        np.logical_and(held, block[at : at + room] == needle[at], out=held)
        share *= common[needle[at]]
    places = np.flatnonzero(held)
    for at, byte in enumerate(needle):
        if not len(places):
            break
        places = places[block[places + at] == byte]
    return places
