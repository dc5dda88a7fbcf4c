from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.panels.tokens.metric_rows import DERIVED, KL_ESTIMATORS, build_rows
from rlpanel.panels.tokens.token_view import lossless, metric_declarations, pack_sample
from rlpanel.panels.ui.assets import read_assets
from rlpanel.schema import ARRAYS, Sample


def make(**fields: Any) -> Sample:
    return Sample(uid="rank_0.jsonl:0", step=1, **fields)


def texts(packed: bytes) -> list[str]:
    return [part.decode() for part in packed.split(b"\xff")[:-1]]


@pytest.mark.parametrize(
    ("sample", "state"),
    [
        (None, "empty"),
        (make(), "text"),
        (make(response="a"), "text"),
        (make(response="a", response_tokens=[]), "text"),
        (make(response_tokens=["a"]), "tokens"),
        (make(logprobs=np.zeros(2)), "positions"),
        (make(response_token_ids=np.array([5.0])), "positions"),
    ],
)
def test_what_was_logged_decides_what_is_drawn(sample: Sample | None, state: str) -> None:
    assert pack_sample(sample)["state"] == state


def test_raw_pieces_travel_only_where_their_spelling_is_unusual() -> None:
    packed = pack_sample(make(response_tokens=["The", "Ġcat", "Ċ", "åĽ½", " x"] + ["a"] * 9))
    assert texts(packed["texts"])[:5] == ["The", " cat", "\n", "国", " x"]
    assert texts(packed["raws"])[:5] == ["", "", "", "åĽ½", " x"]


def test_plain_pieces_send_no_raw_ones() -> None:
    assert "raws" not in pack_sample(make(response_tokens=["The", " cat"]))


def test_repeated_constant_and_derivable_rows_are_not_sent() -> None:
    packed = pack_sample(
        make(logprobs=np.array([-0.1, -0.2, -0.7]), values=np.zeros(3), advantages=np.full(3, 0.5),
             token_rewards=np.array([0.0, 1.0, 2.0]), returns=np.array([0.0, 1.0, 2.0]))
    )  # fmt: skip
    found = dict(zip(packed["rows"]["name"], packed["rows"]["at"], strict=True))
    assert found == {
        "token_reward": 0, "value": -1, "token_advantage": -1, "token_return": 0,
        "logprob": -2, "prob": -2, "surprisal": -2,
    }  # fmt: skip
    assert list(packed["inputs"]) == ["logprobs"]
    assert len(packed["values"]) == 3 * 4


def unpacked(packed: dict[str, Any]) -> np.ndarray:
    if packed["type"] != "micro":
        return np.frombuffer(packed["data"], f"<{packed['type']}").astype(float)
    whole = np.frombuffer(packed["data"], "<i4")
    marks = {-(2**31): np.nan, -(2**31) + 1: -np.inf, 2**31 - 1: np.inf}
    return np.array([marks.get(int(n), int(n) / 1_000_000) for n in whole])


@given(
    st.lists(st.integers(-(10**9), 10**9).map(lambda n: n / 1e6) | st.sampled_from([np.nan, np.inf, -np.inf]))
    | st.lists(st.floats(width=32))
    | st.lists(st.floats())
)
def test_log_probabilities_travel_without_loss(values: list[float]) -> None:
    np.testing.assert_array_equal(unpacked(lossless(np.array(values, float))), values)


@pytest.mark.parametrize(
    ("values", "form"), [([-1.234567, np.nan], "micro"), ([0.1 + 2**-30], "f8"), ([2**-9.0, 2**100.0], "f4")]
)
def test_the_shortest_form_without_loss_is_taken(values: list[float], form: str) -> None:
    assert lossless(np.array(values))["type"] == form


def test_the_browser_has_a_formula_for_each_row_that_is_not_sent() -> None:
    script = read_assets("panels/tokens/formulas.js")
    formulas = re.search(r"const FORMULAS = \{(.*?)\n\}", script, re.DOTALL)
    assert formulas is not None
    assert set(re.findall(r"^  (\w+):", formulas[1], re.MULTILINE)) == DERIVED


def test_tokens_outside_the_loss_are_a_bit_each_and_counted() -> None:
    packed = pack_sample(make(response_tokens=["a"] * 9, loss_mask=np.array([0.0, *[1.0] * 7, 0.0])))
    assert packed["outside"] == bytes([0b1, 0b1])
    assert "2 of 9 tokens are masked from the loss." in packed["notes"]


def test_a_loss_mask_of_another_length_or_of_ones_is_no_mark() -> None:
    packed = pack_sample(make(response_tokens=["a", "b"], loss_mask=np.zeros(3)))
    assert "outside" not in packed
    assert "Loss mask not shown: 3 values for 2 tokens." in packed["notes"]
    assert "outside" not in pack_sample(make(response_tokens=["a", "b"], loss_mask=np.ones(2)))


def test_values_are_little_endian_float32_row_after_row() -> None:
    packed = pack_sample(make(values=np.array([0.25, -0.5]), token_rewards=np.array([1.0, 2.0])))
    np.testing.assert_array_equal(np.frombuffer(packed["values"], "<f4"), [1.0, 2.0, 0.25, -0.5])


def test_the_longest_array_counts_the_cells() -> None:
    packed = pack_sample(make(response_tokens=["a", "b"], values=np.array([1.0, 2.0, 3.0])))
    assert (packed["tokens"], packed["cells"]) == (2, 3)


@pytest.mark.parametrize("digits", [6, 16])
def test_a_response_takes_at_most_45_bytes_a_token(digits: int) -> None:
    chance = np.random.default_rng(0)
    names = ("logprobs", "ref_logprobs", "values", "token_rewards", "advantages")
    arrays = {name: chance.normal(size=256).round(digits) for name in names}
    packed = pack_sample(make(response_tokens=["Ġtoken", "Ġof", "Ġtext", "Ċ"] * 64, **arrays))
    parts = [part for part in packed.values() if isinstance(part, bytes)]
    parts += [part["data"] for part in packed["inputs"].values()]
    assert sum(map(len, parts)) <= 45 * 256


def test_lone_surrogates_do_not_stop_a_sample() -> None:
    packed = pack_sample(make(response_tokens=["\ud83d", "\ude00"]))
    assert texts(packed["texts"]) == ["�", "�"]


def test_a_plain_response_shows_what_would_be_invisible() -> None:
    assert pack_sample(make(response="a\u202eb"))["plain"] == r"a\u202eb"


def test_every_row_is_declared_to_the_browser_and_nothing_else() -> None:
    arrays = {name: np.linspace(-2.0, -1.0, 5) for name in ARRAYS}
    rows = {row.name for kl in KL_ESTIMATORS for row in build_rows(arrays, 5, kl)[0]}
    assert set(metric_declarations()) == rows
    assert metric_declarations()["kl_k3"]["unit"] == "nats"
    assert metric_declarations()["ratio"]["scale"] == "diverging"
