from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from rlpanel.metrics.engine import column_info
from rlpanel.panels.ui import theme
from rlpanel.schema import Sample
from tests.color_vision import EYES, seen_by
from tests.ui.conftest import OpenTokens
from tests.ui.token_page import (
    TokenTab,
    contrast,
    expected_colors,
    generated,
    hex_rgb,
    make_sample,
    metrics,
    raw_line,
    to_lab,
)
from tests.waiting import wait_until

ENGLISH, CHINESE = 0, 1
#: Half a step of a ramp of 256 steps, in the strongest channel, and rounding.
CLOSE = 2.5
PAYLOAD = "<img src=x onerror=\"window.ran = 'token'\">"


@pytest.fixture
def page(token_tab: TokenTab) -> Page:
    """The page on which all views of this module are drawn."""
    return token_tab.page


@pytest.mark.parametrize("number", [ENGLISH, CHINESE])
def test_the_running_text_is_the_response(open_tokens: OpenTokens, number: int) -> None:
    line = raw_line(number)
    board = open_tokens(sample=make_sample(line))
    assert board.text.text_content() == line["response"] + "<|eos|>"


@pytest.mark.parametrize("dark", [True, False], ids=["dark", "light"])
@pytest.mark.parametrize(
    "name", ["token_reward", "log_ratio", "value", "kl_k3", "logprob", "prob", "token_advantage"]
)
def test_the_text_has_the_colours_of_the_raw_line(open_tokens: OpenTokens, name: str, dark: bool) -> None:
    line, m = raw_line(ENGLISH), column_info.get(name)
    board = open_tokens(sample=make_sample(line), metric=name, dark=dark)
    shown = np.array([background for background, _ in board.cells()], dtype=float)
    diverging, sure = m.scale == "diverging", name == "prob"
    wanted = expected_colors(metrics(line)[name], diverging=diverging, color=m.color, dark=dark, sure=sure)
    assert np.abs(shown - wanted).max() <= CLOSE


def test_every_row_of_the_strip_has_a_scale_of_its_own(open_tokens: OpenTokens) -> None:
    line = raw_line(ENGLISH)
    board = open_tokens(sample=make_sample(line))
    names = board.page.locator(".rl-row-label").evaluate_all("labels => labels.map(l => l.dataset.row)")
    assert set(names) == set(metrics(line)) - {"kl_k2", "kl_rllb"}
    for row, name in enumerate(names):
        m = column_info.get(name)
        wanted = expected_colors(
            metrics(line)[name],
            diverging=m.scale == "diverging",
            color=m.color,
            dark=True,
            sure=name in ("prob", "ref_prob"),
        )
        assert np.abs(np.array(board.strip_colors(row, 23), dtype=float) - wanted).max() <= CLOSE, name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, lambda response: response),
        (1, lambda response: response.replace("\u200d", "\\u200d")),  # a whole token: shown escaped
        (2, lambda response: response),
    ],
    ids=["code", "emoji", "english"],
)
def test_a_byte_level_run_reads_as_written_with_the_values_of_its_lines(
    open_tokens: OpenTokens, number: int, text: Callable[[str], str]
) -> None:
    line = raw_line(number, "byte_level")
    wanted = metrics(line)
    board = open_tokens(sample=make_sample(line), metric="ratio")
    assert board.text.text_content() == text(line["response"]) + "<|endoftext|>"
    places, shown = board.backgrounds()
    assert places == list(range(len(line["response_tokens"])))
    ratios = expected_colors(wanted["ratio"], diverging=True, color="policy", dark=True, around=1.0)
    assert np.abs(shown - ratios).max() <= CLOSE
    for i, token in enumerate(line["response_tokens"]):
        board.token(i).hover()
        head = board.tip.locator(".rl-tip-head")
        expect(head).to_contain_text(f"id {line['response_token_ids'][i]}")
        expect(head.locator("b")).to_have_text(f"#{i}")
        if not (token.isascii() and token.isprintable()):
            expect(head.locator("code")).to_have_text(token)
        values = board.tip_values()
        assert values == {name: printed(name, wanted[name][i]) for name in values}
        assert "ratio" in values


@pytest.mark.parametrize("size", [8, 256, 4096, 32768])
def test_colours_and_values_are_those_of_numpy_at_any_length(open_tokens: OpenTokens, size: int) -> None:
    chance = np.random.default_rng(size)
    policy = -chance.exponential(1.0, size)
    numbers = {"logprobs": policy, "ref_logprobs": policy - 0.3 * chance.standard_t(3, size)}
    numbers["values"] = chance.normal(size=size)
    words = [" the", " river", "\n", "月", " is", ","]
    line: dict[str, object] = {name: array.round(6).tolist() for name, array in numbers.items()}
    line["response_tokens"] = [words[k] for k in chance.integers(0, len(words), size)]
    wanted = metrics(line)
    colors = expected_colors(wanted["log_ratio"], diverging=True, color="kl", dark=True)
    board = open_tokens(sample=make_sample(line), metric="log_ratio")
    for i in (0, size // 2, size - 1):
        board.view.token = i
        expect(board.token(i)).to_be_in_viewport()
        board.token(i).hover()
        expect(board.tip.locator("b").first).to_have_text(f"#{i}")
        values = board.tip_values()
        assert values == {name: printed(name, wanted[name][i]) for name in values}
        assert {"log_ratio", "kl_k3", "value", "prob", "ref_prob"} <= set(values)
        places, shown = board.backgrounds()
        assert i in places
        assert np.abs(shown - colors[places]).max() <= CLOSE


@pytest.mark.parametrize("dark", [True, False], ids=["dark", "light"])
def test_colours_are_even_and_told_apart_by_every_eye(open_tokens: OpenTokens, dark: bool) -> None:
    board = open_tokens(sample=make_sample(raw_line(ENGLISH)), dark=dark)
    for name in ("log_ratio", "kl_k3", "logprob", "prob", "ref_prob"):
        board.chip(name).click()
        expect(board.chip(name)).to_have_class("rl-chip chosen")
        drawn = board.page.locator(".rl-legend i").evaluate("legend => legend.style.backgroundImage")
        stops = np.array(re.findall(r"rgb\((\d+), (\d+), (\d+)\)", drawn), float)
        steps = np.linalg.norm(np.diff([to_lab(tuple(stop)) for stop in stops], axis=0), axis=1)
        sides = np.split(steps, 2) if name == "log_ratio" else [steps]
        assert all(side.max() < 1.25 * side.min() for side in sides), name
        for eye in (np.eye(3), *EYES.values()):
            seen = [to_lab(tuple(255 * seen_by(stop / 255, eye))) for stop in stops]
            ends = (seen[0], seen[8], seen[16]) if name == "log_ratio" else (seen[0], seen[16])
            apart = [np.linalg.norm(a - b) for k, a in enumerate(ends) for b in ends[k + 1 :]]
            assert min(apart) > 0.15, name


@pytest.mark.parametrize("dark", [True, False], ids=["dark", "light"])
def test_text_is_legible_on_every_colour(open_tokens: OpenTokens, dark: bool) -> None:
    line = raw_line(ENGLISH)
    line["response_tokens"][3:6] = ["", "<|pad|>", "\u200b"]
    line["logprobs"][7] = float("nan")
    board = open_tokens(sample=make_sample(line), dark=dark, pad_token="<|pad|>")
    surface = tuple(hex_rgb(theme.palette(dark)["surface"]))
    worst = 21.0
    for chip in board.page.locator(".rl-chip").all():
        chip.click()
        expect(chip).to_have_class("rl-chip chosen")
        worst = min(worst, *(contrast(background or surface, ink) for background, ink in board.cells()))
    assert worst >= 4.5


@pytest.mark.parametrize("number", [ENGLISH, CHINESE])
def test_the_card_has_the_values_of_the_raw_line(open_tokens: OpenTokens, number: int) -> None:
    line = raw_line(number)
    board = open_tokens(sample=make_sample(line))
    wanted = metrics(line)
    for estimator in ("kl_k3", "kl_k2", "kl_rllb"):
        board.view.kl_estimator = estimator
        expect(board.chip(estimator)).to_be_visible()
        for i in range(len(line["response_tokens"])):
            board.token(i).hover()
            expect(board.tip.locator("b").first).to_have_text(f"#{i}")
            shown = board.tip_values()
            assert estimator in shown
            assert shown == {name: printed(name, wanted[name][i]) for name in shown}


def test_the_card_rounds_as_python_does_whatever_digits_were_logged(open_tokens: OpenTokens) -> None:
    chance = np.random.default_rng(0)
    ties = -np.arange(1.0, 32.0, 2.0) / 32  # exact halves in the fourth digit
    for logprobs in (ties, chance.normal(size=16), chance.normal(size=16).astype(np.float32)):
        line = {"response_tokens": ["a"] * 16, "logprobs": [float(x) for x in logprobs]}
        line["ref_logprobs"] = [float(np.float32(x)) for x in chance.normal(size=16)]
        board = open_tokens(sample=make_sample(line))
        wanted = metrics(line)
        for i in range(16):
            board.token(i).hover()
            expect(board.tip.locator("b").first).to_have_text(f"#{i}")
            shown = board.tip_values()
            assert shown == {name: printed(name, wanted[name][i]) for name in shown}


def printed(name: str, value: float) -> str:
    """Return four digits of the raw float64; with a plus sign if the metric is signed, unsigned for zero."""
    text = f"{value:.4f}"
    if float(text) == 0:
        return text.replace("-", "")
    return f"+{text}" if column_info.get(name).scale == "diverging" and value > 0 else text


def test_the_card_names_token_raw_piece_unit_and_id(open_tokens: OpenTokens) -> None:
    sample = Sample(
        uid="a:0", step=1, response_tokens=["The", "Ġcat"], response_token_ids=np.array([464.0, 3797.0]),
        logprobs=np.array([-0.5, -0.25]),
    )  # fmt: skip
    board = open_tokens(sample=sample)
    board.token(1).hover()
    expect(board.tip.locator(".rl-tip-head")).to_have_text("#1 “ cat”raw Ġcatid 3797")
    expect(board.tip.locator('[data-row="logprob"]')).to_have_text("logprob-0.2500nats")


def test_the_lines_below_the_strip_have_the_ends_of_their_scale_beside_them(open_tokens: OpenTokens) -> None:
    sample = Sample(uid="a:0", step=1, response_tokens=["a", "b", "c"], logprobs=np.array([-0.5, -2.0, -1.0]))
    board = open_tokens(sample=sample, metric="logprob")
    ends = board.page.locator(".rl-lines-axis > span")
    expect(ends).to_have_text(["−0.50", "−2.00"])
    shown = (ends.first, ends.last, board.page.locator(".rl-lines"))
    highest, lowest, lines = (each.bounding_box() or {} for each in shown)
    assert lines["y"] - 4 <= highest["y"] < lowest["y"] < lines["y"] + lines["height"]
    assert lowest["x"] + lowest["width"] <= lines["x"]


def test_the_strip_shows_the_same_card(open_tokens: OpenTokens) -> None:
    board = open_tokens(sample=make_sample(raw_line(ENGLISH)))
    board.token(13).hover()
    expect(board.tip.locator(".rl-tip-head")).to_have_text("#13 “d”")
    from_text = board.tip_values()
    board.page.mouse.move(1, 1)
    expect(board.tip).to_be_hidden()
    box = board.strip.bounding_box()
    assert box is not None
    board.page.mouse.move(box["x"] + box["width"] * 13.5 / 23, box["y"] + 20)
    expect(board.tip.locator(".rl-tip-head")).to_have_text("#13 “d”")
    assert board.tip_values() == from_text


def test_a_click_pins_and_a_second_one_unpins(open_tokens: OpenTokens) -> None:
    board = open_tokens(sample=make_sample(raw_line(ENGLISH)))
    board.token(13).click()
    wait_until(lambda: board.view.token == 13, page=board.page)
    expect(board.token(13)).to_have_css("outline-color", "rgb(255, 157, 92)")
    expect(board.page.locator(".rl-pin .rl-tip-head")).to_have_text("#13 “d”")
    box, cursor = board.strip.bounding_box(), board.page.locator(".rl-cursor.pin").bounding_box()
    assert box is not None
    assert cursor is not None
    assert cursor["x"] - box["x"] == pytest.approx(box["width"] * 13 / 23, abs=1)
    board.token(13).click()
    wait_until(lambda: board.view.token == -1, page=board.page)
    expect(board.page.locator(".rl-cursor.pin")).to_be_hidden()


def test_a_token_set_in_python_is_shown_wherever_it_stands(open_tokens: OpenTokens) -> None:
    board = open_tokens(sample=generated([" word"] * 4096))
    board.view.token = 3000
    expect(board.token(3000)).to_be_in_viewport()
    expect(board.token(3000)).to_have_class("token pinned")


@pytest.mark.parametrize("place", ["chip", "label"])
def test_choosing_a_metric_sends_its_name_and_nothing_else(
    token_tab: TokenTab, page: Page, place: str
) -> None:
    board = token_tab.open(sample=generated([" word"] * 4096))
    chooser = board.chip("prob") if place == "chip" else page.locator('.rl-row-label[data-row="prob"]')
    chooser.click()
    wait_until(lambda: board.view.metric == "prob", page=page)
    assert sum(map(len, token_tab.received)) < 500
    assert 0 < sum(map(len, token_tab.sent)) < 1000


def test_a_new_sample_is_one_message(token_tab: TokenTab) -> None:
    board = token_tab.open(sample=make_sample(raw_line(ENGLISH)))
    board.view.sample = make_sample(raw_line(CHINESE))
    expect(board.text).to_contain_text("霜")
    assert sum("PATCH-DOC" in str(frame) for frame in token_tab.received) == 1


def test_a_metric_that_is_not_logged_falls_back_in_sight(open_tokens: OpenTokens) -> None:
    board = open_tokens(sample=make_sample(raw_line(ENGLISH)), metric="log_ratio")
    board.view.sample = Sample(uid="a:1", step=1, response_tokens=["a", "b"], values=np.array([0.5, 1.0]))
    expect(board.page.locator(".rl-fallback")).to_have_text(
        "log-ratio is not logged for this sample; coloured by value"
    )
    expect(board.chip("value")).to_have_class("rl-chip chosen")
    board.view.sample = make_sample(raw_line(CHINESE))
    expect(board.chip("log_ratio")).to_have_class("rl-chip chosen")
    assert board.view.metric == "log_ratio"


def test_markup_in_tokens_stays_text(open_tokens: OpenTokens, page: Page) -> None:
    tokens = [PAYLOAD, "<b>bold</b>", "<script>window.ran = 'script'</script>", "Ġ" + PAYLOAD]
    sample = Sample(uid="a:0", step=1, response_tokens=tokens, values=np.array([0.1, 0.2, 0.3, 0.4]))
    board = open_tokens(sample=sample, token=0)
    for i in range(4):
        board.token(i).hover()
    page.locator(".rl-outliers").click()
    expect(board.text).to_contain_text(PAYLOAD)
    expect(board.tip).to_contain_text(PAYLOAD)
    assert page.locator(".rl-tokens img, .rl-tokens script, .rl-tokens-text b").count() == 0
    assert page.evaluate("window.ran") is None


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (["åĽ", "½", "Ġthe", "Ċ", "end"], "国 the\nend"),
        (["▁Hi", "<0xE4>", "<0xBD>", "<0xA0>", "<0x0A>", "</s>"], " Hi你\n</s>"),
        (["", "", "碧", "", "a", "\x12", "\ufffd"], "碧a\\x12�"),
    ],
    ids=["byte-level", "sentencepiece", "plain"],
)
def test_each_token_keeps_a_cell_while_the_text_reads_as_written(
    open_tokens: OpenTokens, tokens: list[str], text: str
) -> None:
    board = open_tokens(sample=generated(tokens))
    assert board.text.text_content() == text
    widths = board.page.locator("[data-i]").evaluate_all(
        "spans => spans.map(s => s.getBoundingClientRect().width)"
    )
    assert len(widths) == len(tokens)
    assert min(widths) >= 4


def test_replacement_characters_are_counted(open_tokens: OpenTokens) -> None:
    board = open_tokens(sample=generated(["�光", " ", "��"]))
    expect(board.page.locator(".rl-notes")).to_contain_text("3 × �")


@pytest.mark.parametrize(
    ("sample", "text", "note"),
    [
        (Sample(uid="a:0", step=1, response_tokens=["a", " b"]), "a b", "No token values are logged"),
        (Sample(uid="a:0", step=1, values=np.array([1.0, 2.0])), "#0#1", "Token texts are not logged"),
        (
            Sample(uid="a:0", step=1, response_token_ids=np.array([7.0, 8.0])),
            "#7#8",
            "serve with --tokenizer tokenizer.json",
        ),
        (Sample(uid="a:0", step=1, response="a <b>"), "a <b>", "no tokens: log response_tokens"),
        (None, "No sample is shown: choose one in the grid.", ""),
    ],
    ids=["tokens", "values", "ids", "text", "none"],
)
def test_what_is_not_logged_is_said_quietly(
    open_tokens: OpenTokens, sample: Sample | None, text: str, note: str
) -> None:
    board = open_tokens(sample=sample)
    expect(board.text).to_have_text(text)
    expect(board.page.locator(".rl-notes")).to_contain_text(note)


def test_a_log_of_ids_shows_the_response_and_the_engines_logprobs(open_tokens: OpenTokens) -> None:
    board = open_tokens(
        sample=Sample(
            uid="a:0",
            step=1,
            response=f"It is 42. {PAYLOAD}",
            response_token_ids=np.array([7.0, 8.0, 9.0]),
            rollout_logprobs=np.array([-0.5, -0.25, -4.0]),
        )
    )
    expect(board.text).to_have_text(f"It is 42. {PAYLOAD}")
    expect(board.page.locator('.rl-row-label[data-row="engine_logprob"]')).to_be_visible()
    notes = board.page.locator(".rl-notes")
    expect(notes).to_contain_text("serve with --tokenizer tokenizer.json")
    expect(notes).not_to_contain_text("No token values")
    box = board.strip.bounding_box()
    assert box is not None
    board.page.mouse.click(box["x"] + box["width"] * 5 / 6, box["y"] + box["height"] / 2)
    expect(board.page.locator(".rl-pin .rl-tip-head")).to_contain_text("id 9")
    expect(board.page.locator('.rl-pin [data-row="engine_logprob"] dd')).to_have_text("-4.0000nats")
    assert board.page.evaluate("window.ran") is None


def test_tokens_that_were_decoded_one_by_one_get_the_text_of_the_response(open_tokens: OpenTokens) -> None:
    sample = generated(["Hello", "world", "\N{REPLACEMENT CHARACTER}", "\N{REPLACEMENT CHARACTER}", "!"])
    board = open_tokens(sample=replace(sample, response="Hello world国!"))
    expect(board.text).to_have_text("Hello world国!")
    expect(board.page.locator(".rl-notes")).not_to_contain_text("invalid UTF-8")


def test_odd_rows_are_drawn_as_what_they_are(open_tokens: OpenTokens) -> None:
    sample = Sample(
        uid="a:0", step=1, response_tokens=["a", "b", "c", "d"], values=np.zeros(4),
        token_rewards=np.array([0.5, 0.25]), advantages=np.array([1.0, np.nan, -np.inf, 0.1]),
    )  # fmt: skip
    board = open_tokens(sample=sample, metric="token_advantage")
    said = board.page.locator(".rl-notes > div").all_text_contents()
    assert said == [
        "token reward: 2 values for 4 tokens",
        "value: all zero: not informative",
        "token advantage: 1 NaN; 1 -inf",
    ]
    expect(board.token(1)).to_have_class("token unknown")
    expect(board.token(2)).to_have_class("token infinite")
    board.token(2).hover()
    assert board.tip_values() == {"token_reward": "—", "value": "0.0000", "token_advantage": "-inf"}


def test_tokens_outside_the_loss_are_marked_in_text_strip_and_card(open_tokens: OpenTokens) -> None:
    line = raw_line(ENGLISH) | {"loss_mask": [0.0, 0.0] + [1.0] * 21}
    board = open_tokens(sample=make_sample(line))
    outside = board.page.locator(".token.outside").evaluate_all("all => all.map(t => Number(t.dataset.i))")
    assert outside == [0, 1]
    rows = board.page.locator(".rl-row-label").count()
    expect(board.page.locator(".rl-mask-label").first).to_have_text("masked from loss")
    muted = tuple(hex_rgb(theme.DARK["muted"]))
    assert board.strip_colors(rows, 23) == [muted] * 2 + [(0, 0, 0)] * 21
    board.token(1).hover()
    expect(board.tip.locator(".rl-tip-head")).to_contain_text("masked from loss")
    board.token(2).hover()
    expect(board.tip.locator(".rl-tip-head")).not_to_contain_text("masked from loss")


def test_pads_are_grey_and_take_no_colour(open_tokens: OpenTokens) -> None:
    board = open_tokens(sample=generated(["a", "b", "<|pad|>"]), pad_token="<|pad|>")
    expect(board.token(2)).to_have_class("token pad")
    expect(board.token(2)).to_have_css("background-color", "rgba(0, 0, 0, 0)")


def test_a_long_response_draws_only_what_is_in_view(open_tokens: OpenTokens, page: Page) -> None:
    board = open_tokens(sample=generated([" word", " and", " another", "\n"] * 8192))
    assert page.locator("[data-i]").count() < 4096
    board.text.evaluate("text => { text.scrollTop = text.scrollHeight; }")
    expect(board.token(32767)).to_be_attached()
    assert page.locator("[data-i]").count() < 8192


@pytest.mark.parametrize("dark", [True, False], ids=["dark", "light"])
def test_nothing_reaches_over_the_edge_of_a_narrow_card(
    open_tokens: OpenTokens, page: Page, dark: bool
) -> None:
    page.set_viewport_size({"width": 660, "height": 560})
    line = raw_line(ENGLISH) | {
        "response_tokens": ["verylongword" * 12, *raw_line(ENGLISH)["response_tokens"][1:]]
    }
    board = open_tokens(sample=make_sample(line), dark=dark, token=3)
    assert page.evaluate("document.documentElement.scrollWidth") <= 660
    for part in (page.locator(".rl-tokens"), board.text):
        assert part.evaluate("element => element.scrollWidth <= element.clientWidth")
    assert board.strip.evaluate("canvas => canvas.clientWidth") > 300


def test_the_theme_changes_text_and_strip_in_place(open_tokens: OpenTokens) -> None:
    line = raw_line(ENGLISH)
    board = open_tokens(sample=make_sample(line), metric="value")
    board.view.dark = False
    wanted = expected_colors(metrics(line)["value"], diverging=True, color="length", dark=False)
    expect(board.page.locator(".rl-tokens.dark")).to_have_count(0)
    assert np.abs(np.array([cell[0] for cell in board.cells()], dtype=float) - wanted).max() <= CLOSE
    assert np.abs(np.array(board.strip_colors(3, 23), dtype=float) - wanted).max() <= CLOSE
