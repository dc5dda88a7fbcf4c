"""Aligns the texts of tokens to the text of their response.

Trainers often log tokens that were decoded one by one, which loses information: SentencePiece drops the space
before a word, and a token with a part of a character becomes U+FFFD. A ``Ġ`` may be left over, too. The
response was decoded as a whole and has the right text. The alignment is greedy; its time is nearly linear.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

REPLACEMENT = "\ufffd"

#: Share of the response's characters whose tokens may have another text, such as one that was normalized.
TOLERANCE = 0.1
#: Maximum number of characters to search ahead for a token's text.
MAX_AHEAD = 256


def align_texts(texts: Sequence[str], fixed: Sequence[bool], response: str) -> list[str] | None:
    """Return each token's part of the response.

    Parameters
    ----------
    texts : sequence of str, length T
        Texts of the tokens, decoded one by one.
    fixed : sequence of bool, length T
        Tokens that the response may leave out, such as ``<|im_end|>``. They keep their texts.
    response : str
        Text of all tokens, decoded as a whole.

    Returns
    -------
    list of str, length T, or None
        Joined, the texts are the response, with the fixed tokens and the whitespace that it leaves out. A
        character that spans several tokens is the text of its last token. None if the texts do not match.
    """
    alignment = _Alignment(response, len(texts))
    for index, text in enumerate(texts):
        if fixed[index] and not response.startswith(text, alignment.position):
            alignment.texts[index] = text
        elif text and not alignment.place(index, text):
            return None
    return alignment.texts if alignment.finish() else None


class _Alignment:
    """Position in the response up to which tokens are aligned, and tokens that wait for a later match."""

    def __init__(self, response: str, tokens: int) -> None:
        self.position = 0
        self.texts = [""] * tokens
        self._response = response
        # Index of each token that waits, and the text that it keeps if no characters are left for it.
        self._waiting: list[tuple[int, str]] = []
        self._ahead = 0
        self._misses_left = TOLERANCE * len(response) + 1

    def place(self, index: int, text: str) -> bool:
        """Place a token's text at its position in the response; return False if too many do not match."""
        if not text.strip(REPLACEMENT):
            self._wait(index, len(text))
            return True
        for candidate in _spellings(text):
            known = candidate.strip(REPLACEMENT)
            lead = len(candidate) - len(candidate.lstrip(REPLACEMENT))
            found = self._find(known, lead)
            if found >= 0:
                self._match(index, found, known, waits_before=lead > 0)
                if candidate.endswith(REPLACEMENT):
                    self._wait(index, len(candidate) - lead - len(known))
                return True
        if text.isspace():  # the response was stripped
            self.texts[index] = text
            return True
        self._wait(index, 2 * len(text), text)
        self._misses_left -= len(text)
        return self._misses_left >= 0

    def finish(self) -> bool:
        """Give the rest of the response to the tokens that wait; return False if none of them can have it."""
        rest = self._response[self.position :]
        if self._waiting and len(rest) <= self._ahead:
            self._share(rest)
            return True
        if self.texts and not rest.strip():
            self.texts[-1] += rest
            return True
        return not rest

    def _find(self, known: str, lead: int) -> int:
        """Return where a text is found ahead; -1 if nowhere within the reach of the waiting tokens."""
        response, begin = self._response, self.position
        reach = min(self._ahead + lead, MAX_AHEAD)
        if not reach and response.startswith(known, begin):
            return begin
        window = response[begin + reach : begin + reach + MAX_AHEAD]
        spaces = len(window) - len(window.lstrip())
        return response.find(known, begin, begin + reach + spaces + len(known))

    def _match(self, index: int, found: int, known: str, *, waits_before: bool) -> None:
        """Give the characters before the match to the tokens that wait, and a lost space to the token."""
        between = self._response[self.position : found]
        if waits_before:
            self._waiting.append((index, ""))
        if self._waiting:
            body = between if waits_before else between.rstrip()
            self._share(body)
            between = between[len(body) :]
        self.texts[index] += between + known
        self.position = found + len(known)
        self._waiting, self._ahead = [], 0

    def _share(self, part: str) -> None:
        """Spread characters evenly over the tokens that wait; each belongs to the last of its tokens."""
        count = len(self._waiting)
        for number, char in enumerate(part, 1):
            last = -(-number * count // len(part)) - 1
            self.texts[self._waiting[last][0]] += char
        for index, own in self._waiting:
            self.texts[index] = self.texts[index] or own

    def _wait(self, index: int, characters: int, own: str = "") -> None:
        self._waiting.append((index, own))
        self._ahead += characters


def _spellings(text: str) -> Iterator[str]:
    """Yield the text, then with the letters for spaces and line breaks replaced, then without whitespace."""
    yield text
    plain = text.replace("Ġ", " ").replace("Ċ", "\n").replace("▁", " ")
    if plain != text:
        yield plain
    stripped = plain.lstrip()
    if stripped and stripped != plain:
        yield stripped
