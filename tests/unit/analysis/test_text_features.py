"""Words, sequences and openings are those that a plain loop counts."""

from __future__ import annotations

import random

import pytest

from rlpanel.analysis.text_features import MIN_TEXTS, TextFeatures, place_of, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat's hat.", ["the", "cat's", "hat", "."]),
        ("山月 abc", ["山", "月", "abc"]),
        ("a<|im_start|>user", ["a", "<|im_start|>", "user"]),
        ("<think>x</think>", ["<think>", "x", "</think>"]),
        ("1 < 2_3", ["1", "<", "2", "_", "3"]),
        ("", []),
    ],
)
def test_words_are_letters_marks_characters_and_special_tokens(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def counted(texts: list[list[str]], size: int, *, opening: bool = False) -> dict[tuple[str, ...], set[int]]:
    """Texts of each sequence, by a loop."""
    found: dict[tuple[str, ...], set[int]] = {}
    for number, words in enumerate(texts):
        starts = range(1) if opening else range(len(words) - size + 1)
        for start in starts:
            if len(words) >= size:
                found.setdefault(tuple(words[start : start + size]), set()).add(number)
    return {key: seen for key, seen in found.items() if MIN_TEXTS <= len(seen) < len(texts)}


def test_all_features_are_those_of_a_loop() -> None:
    chance = random.Random(3)
    texts = [[chance.choice("abcdefgh") for _ in range(chance.randint(0, 12))] for _ in range(80)]
    features = TextFeatures()
    for words in texts:
        features.add(" ".join(words))
    found: dict[str, dict[tuple[str, ...], set[int]]] = {}
    for family in features.families():
        seen = {family.key(at): set(family.texts_of(at).tolist()) for at in range(len(family))}
        found.setdefault(family.kind, {}).update(seen)
    openings = [counted(texts, size, opening=True) for size in (1, 2, 3, 4)]
    assert found["word"] == counted(texts, 1)
    assert found["words"] == counted(texts, 2) | counted(texts, 3)
    assert found["opening"] == {key: seen for part in openings for key, seen in part.items()}


def test_letters_are_counted_by_script() -> None:
    features = TextFeatures()
    for text in ("abc Ж 山月 ひら 한 1!", "12"):
        features.add(text)
    shares = features.script_shares()
    found = {name: round(float(share[0]) * 9) for name, share in shares.items()}
    assert found == {"Latin": 3, "Cyrillic": 1, "Kana": 2, "Han": 2, "Hangul": 1}
    assert all(share[1] != share[1] for share in shares.values())


def test_a_sequence_is_found_as_it_is_written() -> None:
    text = "So,  As a\tModel I"
    assert place_of(text, ("as", "a", "model")) == (5, 15)
    assert place_of(text, ("a", "as")) is None
