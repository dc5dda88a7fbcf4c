from __future__ import annotations

import random
import time

import pytest

from rlpanel.panels.compare.text_diff import TextDiff, diff, token_units, word_units


def sides(found: TextDiff) -> tuple[str, str]:
    """Both texts, what differs in brackets, rows parted by a bar."""
    shown = [
        ["".join(text if same else f"[{text}]" for text, same in side) for side in row] for row in found.rows
    ]
    return "|".join(left for left, _ in shown), "|".join(right for _, right in shown)


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        ("the cat sat", "the dog sat", ("the [cat ]sat", "the [dog ]sat")),
        ("白云过长黄。", "白云入长黄。", ("白云[过]长黄。", "白云[入]长黄。")),
        ("a\nb c\nd", "a\nb x\nd", ("a\n|b [c]\n|d", "a\n|b [x]\n|d")),
        ("end", "end and more", ("end", "end [and more]")),
        ("same", "same", ("same", "same")),
        ("", "all new", ("", "[all new]")),
        ("", "", ("", "")),
        ("x = 1", "x  = 1", ("[x ]= 1", "[x  ]= 1")),
    ],
    ids=["word", "character", "line", "longer", "equal", "empty", "nothing", "blanks"],
)
def test_what_differs_is_marked_on_its_side(left: str, right: str, wanted: tuple[str, str]) -> None:
    assert sides(diff(word_units(left), word_units(right))) == wanted


def test_a_byte_that_completes_another_character_differs() -> None:
    left = token_units(["åĽ", "½", "Ġa"], ["", "国", " a"])
    right = token_units(["äĽ", "½", "Ġa"], ["", "䛽", " a"])
    assert sides(diff(left, right)) == ("[国] a", "[䛽] a")


def test_bytes_that_show_nothing_do_not_count_as_common() -> None:
    assert (
        diff(token_units(["", "", "碧"], ["", "", "碧"]), token_units(["", "", "霜"], ["", "", "霜"])).shared
        == 0
    )


def generated(chance: random.Random, size: int) -> list[str]:
    """Words as often as in a language: the n-th most frequent 1/n times as often as the first."""
    return chance.choices([f"w{n}" for n in range(2000)], weights=[1 / n for n in range(1, 2001)], k=size)


def test_a_long_text_with_few_changes_keeps_what_is_the_same() -> None:
    chance = random.Random(0)
    text = generated(chance, 16_000)
    changed = ["changed" if chance.random() < 0.05 else word for word in text]
    kept = sum(a == b for a, b in zip(text, changed, strict=True)) / len(text)
    found = diff(word_units(" ".join(text)), word_units(" ".join(changed)))
    assert found.whole
    assert found.shared == pytest.approx(kept, abs=0.01)


def test_every_text_comes_back_whole() -> None:
    chance = random.Random(1)
    for size in (3, 300, 6000):
        left, right = " ".join(generated(chance, size)), "\n".join(generated(chance, size))
        rows = diff(word_units(left), word_units(right)).rows
        assert "".join(piece.text for here, _ in rows for piece in here) == left
        assert "".join(piece.text for _, there in rows for piece in there) == right


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("ab" * 9000, "ba" * 9000 + "c"),
        ("的" * 9000 + "一", "二" + "的" * 9000),
        ("a b\n" * 9000, "b\n" * 9000),
    ],
    ids=["letters", "repeated", "lines"],
)
def test_texts_that_would_take_for_ever_are_cut_short_and_say_so(left: str, right: str) -> None:
    started = time.process_time()
    spaced = (word_units(" ".join(left)), word_units(" ".join(right)))
    assert not diff(*spaced).whole
    assert time.process_time() - started < 5
