from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlpanel.schema import Sample
from rlpanel.views.token_payload import declarations, pack


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
        (make(logprobs=np.zeros(2)), "places"),
        (make(response_token_ids=np.array([5.0])), "places"),
    ],
)
def test_what_was_logged_decides_what_is_drawn(sample: Sample | None, state: str) -> None:
    assert pack(sample)["state"] == state


def test_raw_pieces_travel_only_where_they_differ() -> None:
    packed = pack(make(response_tokens=["The", "Ġcat", "Ċ"]))
    assert (texts(packed["texts"]), texts(packed["raws"])) == (["The", " cat", "\n"], ["", "Ġcat", "Ċ"])


def test_plain_pieces_send_no_raw_ones() -> None:
    assert "raws" not in pack(make(response_tokens=["The", " cat"]))


def test_rows_that_repeat_turn_round_or_stand_still_take_no_bytes() -> None:
    logprobs = np.array([-0.1, -0.2, -0.7])
    packed = pack(make(logprobs=logprobs, values=np.zeros(3), advantages=np.full(3, 0.5)))
    rows = packed["rows"]
    found = dict(zip(rows["name"], zip(rows["at"], rows["sign"], strict=True), strict=True))
    assert found == {
        "value": (-1, 1), "token_advantage": (-1, 1), "logprob": (0, 1), "prob": (3, 1), "surprisal": (0, -1),
    }  # fmt: skip


def test_values_are_little_endian_float32_row_after_row() -> None:
    packed = pack(make(values=np.array([0.25, -0.5]), token_rewards=np.array([1.0, 2.0])))
    np.testing.assert_array_equal(np.frombuffer(packed["values"], "<f4"), [1.0, 2.0, 0.25, -0.5])


def test_the_longest_array_counts_the_cells() -> None:
    packed = pack(make(response_tokens=["a", "b"], values=np.array([1.0, 2.0, 3.0])))
    assert (packed["tokens"], packed["cells"]) == (2, 3)


def test_a_long_response_takes_at_most_45_bytes_a_token() -> None:
    chance = np.random.default_rng(0)
    arrays = {
        name: chance.normal(size=4096) for name in ("logprobs", "ref_logprobs", "values", "token_rewards")
    }
    packed = pack(make(response_tokens=["Ġtoken", "Ġof", "Ġtext", "Ċ"] * 1024, **arrays))
    assert sum(len(part) for part in packed.values() if isinstance(part, bytes)) <= 45 * 4096


def test_lone_surrogates_do_not_stop_a_sample() -> None:
    packed = pack(make(response_tokens=["\ud83d", "\ude00"]))
    assert texts(packed["texts"]) == ["�", "�"]


def test_a_plain_response_shows_what_would_be_invisible() -> None:
    assert pack(make(response="a\u202eb"))["plain"] == r"a\u202eb"


def test_every_token_metric_is_declared_to_the_browser() -> None:
    assert declarations()["kl_k3"]["unit"] == "nats"
