from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.texts.display_text import TokenKind, decode, detect, escape_invisible


def byte_level(text: str) -> list[str]:
    """One piece a byte, spelled as GPT-2's vocabulary spells it."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    letters = {byte: chr(byte) for byte in visible}
    letters |= {byte: chr(256 + n) for n, byte in enumerate(b for b in range(256) if b not in visible)}
    return [letters[byte] for byte in text.encode()]


def kinds(tokens: list[str], pad_token: str = "") -> list[TokenKind]:
    return [TokenKind(kind) for kind in decode(tokens, pad_token).kinds]


@pytest.mark.parametrize(
    ("tokens", "spelling"),
    [
        (["the", " mount", "ain"], "plain"),
        (["", "", "碧", "。", "<|eos|>"], "plain"),
        (["caf", "é", "na", "ï", "ve"], "plain"),
        (["č", "e", "s", "k", "y"], "plain"),
        (["Ġgran", "de", " is", " a", " word"], "plain"),
        (["The", "Ġcat", "Ċ", "<|im_end|>"], "byte-level"),
        (["åĽ", "½", "å®¶"], "byte-level"),
        (["caf", "Ã©"], "byte-level"),
        (["a", "Ġb", "Ġc", "Ġd", "Ġe", "Ġf", "Ġg", "Ġh", "Ġi", "Ġj", "Ġk", "   "], "byte-level"),
        (["▁Hello", "▁world", "</s>"], "sentencepiece"),
        (["<0xE4>", "<0xBD>", "<0xA0>"], "sentencepiece"),
        (["a ▁ is", " a", " bar"], "plain"),
        (["<|eos|>"], "plain"),
        ([], "plain"),
    ],
    ids=str,
)
def test_the_whole_list_decides_how_tokens_are_spelled(tokens: list[str], spelling: str) -> None:
    assert detect(tokens) == spelling


def test_a_character_stands_at_the_token_that_completes_it() -> None:
    assert decode(["åĽ", "½", "Ġthe", "Ċ", "<|im_end|>"]).texts == ["", "国", " the", "\n", "<|im_end|>"]


def test_sentencepiece_bytes_join_across_tokens() -> None:
    assert decode(["▁Hi", "<0xE4>", "<0xBD>", "<0xA0>", "</s>"]).texts == [" Hi", "", "", "你", "</s>"]


def test_plain_pieces_pass_unchanged() -> None:
    tokens = ["the", " mount", "", "", "碧", "\n", "<|eos|>", "�。"]
    assert decode(tokens).texts == tokens


def test_an_added_token_among_byte_letters_stays_as_it_is() -> None:
    tokens = ["a", "Ġb", "Ġc", "Ġd", "Ġe", "Ġf", "Ġg", "Ġh", "Ġi", "Ġj", "Ġk", "思考 "]
    assert decode(tokens).texts[-1] == "思考 "


def test_bytes_cut_off_by_a_special_token_become_a_counted_replacement() -> None:
    shown = decode(["Ġthe", "åĽ", "<|eos|>"])
    assert (shown.texts, shown.replaced) == ([" the", "�", "<|eos|>"], 1)


def test_replacement_characters_of_the_log_are_counted() -> None:
    assert decode(["��云", " the", "�"]).replaced == 3


def test_an_empty_cell_is_a_fragment_only_where_a_character_follows() -> None:
    E, F, P, S = TokenKind.EMPTY, TokenKind.FRAGMENT, TokenKind.PLAIN, TokenKind.SPECIAL
    assert kinds(["", "", "碧", "", "a", "", "<|eos|>", ""]) == [F, F, P, E, P, E, S, E]


def test_byte_fragments_are_told_from_empty_pieces() -> None:
    assert kinds(["åĽ", "", "½", "Ġa"]) == [
        TokenKind.FRAGMENT,
        TokenKind.EMPTY,
        TokenKind.PLAIN,
        TokenKind.PLAIN,
    ]


def test_special_and_pad_tokens_are_told_apart_from_markup() -> None:
    tokens = ["<|eos|>", "</s>", "<div>", "[PAD]", "[1]", "<｜end▁of▁sentence｜>", "<|pad|>"]
    S, P = TokenKind.SPECIAL, TokenKind.PLAIN
    assert kinds(tokens, "<|pad|>") == [S, S, P, S, P, S, TokenKind.PAD]


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("\x12", r"\x12"),
        ("a\u202eb", r"a\u202eb"),
        ("\u200b", r"\u200b"),
        ("\ufe0f", r"\ufe0f"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_cannot_be_seen_is_spelled_out(token: str, shown: str) -> None:
    made = decode([" a", token])
    assert (made.texts[1], TokenKind(made.kinds[1])) == (shown, TokenKind.CONTROL)


@pytest.mark.parametrize("token", ["👩\u200d💻", "❤\ufe0f", "می\u200cخواهم", "a\tb\n"])
def test_joiners_line_breaks_and_tabs_stay(token: str) -> None:
    assert decode([" a", token]).texts[1] == token


def test_a_lone_surrogate_becomes_a_replacement() -> None:
    assert decode(["\ud83d", " a"]).texts == ["�", " a"]


def test_reveal_leaves_line_breaks() -> None:
    assert escape_invisible("a\r\nb") == "a\\r\nb"


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp", "Mn"]), min_size=1), st.data())
def test_byte_letters_cut_anywhere_read_as_the_text(text: str, data: st.DataObject) -> None:
    letters = "".join(byte_level("Zeile: " + text))
    cuts = data.draw(st.sets(st.integers(1, len(letters) - 1)))
    edges = [0, *sorted(cuts), len(letters)]
    pieces = [letters[a:b] for a, b in itertools.pairwise(edges)]
    assert "".join(decode(pieces).texts) == "Zeile: " + text


@given(st.lists(st.text(max_size=4)))
def test_every_token_keeps_a_cell_of_its_own(tokens: list[str]) -> None:
    shown = decode(tokens)
    assert len(shown.texts) == len(shown.kinds) == len(tokens)
