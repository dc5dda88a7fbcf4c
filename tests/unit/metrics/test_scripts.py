"""Scripts are those of the Unicode names of letters; shares are those of a loop over characters."""

from __future__ import annotations

import random
import unicodedata

import numpy as np
import pytest

from rlpanel.metrics.scripts import SCRIPTS, foreign_shares, script_counts

#: Scripts by the beginning of the Unicode names of their letters.
NAMES = {
    "LATIN SMALL LETTER": "Latin",
    "LATIN CAPITAL LETTER": "Latin",
    "GREEK SMALL LETTER": "Greek",
    "GREEK CAPITAL LETTER": "Greek",
    "CYRILLIC SMALL LETTER": "Cyrillic",
    "CYRILLIC CAPITAL LETTER": "Cyrillic",
    "HEBREW LETTER": "Hebrew",
    "ARABIC LETTER": "Arabic",
    "DEVANAGARI LETTER": "Devanagari",
    "THAI CHARACTER": "Thai",
    "HIRAGANA LETTER": "Kana",
    "KATAKANA LETTER": "Kana",
    "CJK UNIFIED IDEOGRAPH": "Han",
    "HANGUL SYLLABLE": "Hangul",
    "ARMENIAN": "other script",
    "BENGALI": "other script",
    "GEORGIAN": "other script",
    "TAMIL": "other script",
}
RUSSIAN, CHINESE, ENGLISH = "сколько будет", "三加四等于几", "what is the sum"


def named(character: str) -> str:
    """The script by the character's name; empty for what is no letter of these."""
    name = unicodedata.name(character, "") if character.isalpha() else ""
    return next((script for start, script in NAMES.items() if name.startswith(start)), "")


def test_the_script_of_each_letter_is_in_its_unicode_name() -> None:
    letters = [chr(point) for point in range(0x20000 + 100) if named(chr(point))]
    counts = script_counts(letters)
    names = list(SCRIPTS)
    found = [names[at] for at in counts.argmax(axis=1)]
    assert counts.sum(axis=1).tolist() == [1] * len(letters)
    # Greek and Cyrillic have some phonetic letters in a block of Latin ones.
    wrong = [letter for letter, script in zip(letters, found, strict=True) if named(letter) != script]
    assert (
        len(letters) > 30_000,
        all("\u1d00" <= letter <= "\u1dbf" or letter == "\uab65" for letter in wrong),
    ) == (
        True,
        True,
    )


def test_digits_punctuation_and_emoji_are_no_letters() -> None:
    marks = "0123456789 !?.,;:×÷²½†“”…—、。・「」？٣४๕ⅷ→∑√🙂🇨🇳👩‍🔬\ufffd\ue000\ud800\x00\n"
    assert script_counts([marks, "", *marks]).sum() == 0


def test_letters_are_counted_by_script() -> None:
    counts = script_counts(["abc Ж 山月 ひら 한 1!", "", "ا𝑥ｗ"])
    assert counts.tolist() == [
        [3, 0, 1, 0, 0, 0, 0, 2, 2, 1, 0],
        [0] * 11,
        [2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0],
    ]


def expected(prompt: str, response: str) -> float:
    """The share of foreign letters, by a loop."""

    def scripts(text: str) -> list[str]:
        ends = text if len(text) <= 1000 else text[:500] + text[-500:]
        found = [named(character) for character in ends]
        return ["Han" if script == "Kana" else script for script in found if script]

    asked, said = scripts(prompt), scripts(response)
    if not prompt or not said:
        return np.nan
    foreign = {
        script for script in said if script != "Latin" and asked.count(script) < max(0.05 * len(asked), 1)
    }
    latin = said.count("Latin")
    if asked.count("Latin") < 0.3 * len(asked) and latin >= 20 and latin >= 0.9 * len(said):
        foreign.add("Latin")
    return sum(script in foreign for script in said) / len(said)


def test_shares_are_those_of_a_loop() -> None:
    draw = random.Random(1)
    alphabets = [
        "abcdef xyz",
        "жизнь",
        "山月春江",
        "ひらカナ",
        "αβγ",
        "한국",
        "שלום",
        "سلام",
        "ไทย",
        "अकल",
        "123 +",
        "🙂×\ufffd",
    ]

    def text() -> str:
        letters = [draw.choice(alphabets) for _ in range(draw.randint(0, 3))]
        return "".join(
            draw.choice(draw.choice(letters)) for _ in range(draw.choice([0, 3, 40, 1700])) if letters
        )

    prompts, responses = ([text() for _ in range(300)] for _ in range(2))
    found = foreign_shares(prompts, responses)
    np.testing.assert_allclose(found, [expected(*pair) for pair in zip(prompts, responses, strict=True)])
    assert 20 < (found > 0.5).sum() < 280


@pytest.mark.parametrize(
    ("prompt", "response", "share"),
    [
        (ENGLISH, "四 or four", 1 / 7),
        (ENGLISH, "Answer: 7", 0.0),
        (CHINESE, "答案是 seven", 0.0),
        (CHINESE, "print(3 + 4)", 0.0),
        (CHINESE, "The sum of three and four is seven.", 1.0),
        (CHINESE, "こたえ", 0.0),
        (RUSSIAN, "答案 семь", 2 / 6),
        ("3 + 4 =", "答案是七", 1.0),
        ("3 + 4 =", "seven is the answer to it", 0.0),
        (ENGLISH, "7", np.nan),
        (ENGLISH, "", np.nan),
        (ENGLISH, None, np.nan),
        ("", CHINESE, np.nan),
        (None, CHINESE, np.nan),
        (ENGLISH, "🙂 \ufffd", np.nan),
        (ENGLISH, "\ud800 a", 0.0),
    ],
)
def test_latin_is_foreign_only_if_nearly_all_of_the_response_is_latin(
    prompt: str | None, response: str | None, share: float
) -> None:
    np.testing.assert_allclose(foreign_shares([prompt, ENGLISH], [response, "one"]), [share, 0.0])


def test_the_ends_of_a_huge_text_count() -> None:
    texts = ["a" * 500 + "山" * 1_000_000 + "a" * 500, "a" * 1_000_000 + "山" * 250]
    assert foreign_shares([ENGLISH] * 2, texts).tolist() == [0.0, 0.25]
