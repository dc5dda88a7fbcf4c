"""Weights of phrases equal sums in loops over the tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlpanel.update import phrase_weights as module
from rlpanel.update.loss_algorithms import ALGORITHMS
from rlpanel.update.phrase_weights import PhraseWeight, phrase_weights
from rlpanel.update.token_gradient import PreparedLoss
from rlpanel.update.update_anatomy import anatomy
from rlpanel.update.update_batch import UpdateBatch

WORDS = [*(f"Ġw{at}" for at in range(40)), "ĠLet", "Ġme", "Ġcount", "<|im_end|>"]
LET, ME, COUNT, END = range(40, 44)
SAMPLES, TOKENS = 16, 30


@pytest.fixture(scope="module")
def batch() -> UpdateBatch:
    """Half of the samples hold “Let me count” once and are rewarded; two hold it in two pieces."""
    token = np.random.default_rng(3).integers(0, 40, (SAMPLES, TOKENS))
    for sample in range(0, SAMPLES, 2):
        token[sample, 4 + sample : 7 + sample] = LET, ME, COUNT
    token[1, 3:7] = LET, ME, END, COUNT
    reward = np.where(np.arange(SAMPLES) % 2 == 0, 1.0, 0.0)
    group = np.repeat(np.arange(SAMPLES // 4), 4)
    return UpdateBatch.of_arrays(
        np.full(SAMPLES, TOKENS), group, reward, token=token.ravel().astype(np.int32), tokens=WORDS
    )


def pushes_of(batch: UpdateBatch) -> np.ndarray:
    """Return made-up pushes: the phrase weighs more than other tokens."""
    assert batch.token is not None
    pushes = np.repeat(np.where(batch.reward > 0, 1.0, -1.0), batch.counts)
    return np.where(np.isin(batch.token, [LET, ME, COUNT]), 3.0, 1.0) * pushes * batch.mask


def of_phrase(batch: UpdateBatch) -> PhraseWeight:
    found, searched = phrase_weights(batch, pushes_of(batch), np.ones(SAMPLES))
    assert searched == SAMPLES
    return found[0]


def test_the_heaviest_phrase_has_the_sums_of_its_tokens(batch: UpdateBatch) -> None:
    first = of_phrase(batch)
    assert first.text == " Let me count"
    assert (first.weight, first.net) == (8 * 9.0, 8 * 9.0)
    assert (first.tokens, first.samples) == (8 * 3, 8)
    assert np.isnan(first.change)


def test_parts_of_a_listed_phrase_are_left_out(batch: UpdateBatch) -> None:
    found, _ = phrase_weights(batch, pushes_of(batch), np.ones(SAMPLES))
    texts = [each.text for each in found]
    assert not {" Let me", " me count"} & set(texts)
    assert all(each.samples >= 2 for each in found)


def test_masked_tokens_and_special_ones_end_a_phrase(batch: UpdateBatch) -> None:
    mask = np.ones(batch.size, bool).reshape(SAMPLES, TOKENS)
    mask[0, 5] = False  # the middle of the first sample's phrase
    masked = replace(batch, mask=mask.ravel())
    assert of_phrase(masked).samples == 7


def test_overlapping_occurrences_count_each_token_once() -> None:
    batch = UpdateBatch.of_arrays(
        np.array([6, 6]), np.zeros(2, int), np.array([0.0, 1.0]),
        token=np.zeros(12, np.int32), tokens=["Ġha"],
    )  # fmt: skip
    found, _ = phrase_weights(batch, np.ones(12), np.ones(2))
    assert [(each.weight, each.tokens) for each in found] == [(12.0, 12)]


def test_the_realised_change_is_the_mean_over_its_tokens(batch: UpdateBatch) -> None:
    old = np.zeros(batch.size, np.float32)
    new = np.where(np.isin(batch.token, [LET, ME, COUNT]), 0.5, -1).astype(np.float32)
    assert of_phrase(replace(batch, old=old, new=new)).change == pytest.approx(0.5)


def test_bytes_of_one_character_in_two_tokens_become_the_character() -> None:
    token = np.tile(np.array([0, 1], np.int32), 4)
    batch = UpdateBatch.of_arrays(
        np.array([4, 4]), np.zeros(2, int), np.array([0.0, 1.0]), token=token, tokens=["åĽ", "½"]
    )
    found, _ = phrase_weights(batch, np.ones(8), np.ones(2))
    assert found[0].text == "国国"


def test_without_texts_or_weight_there_are_no_phrases(batch: UpdateBatch) -> None:
    assert phrase_weights(replace(batch, token=None), pushes_of(batch), np.ones(SAMPLES)) == ([], 0)
    assert phrase_weights(batch, pushes_of(batch), np.zeros(SAMPLES)) == ([], 0)


def test_of_many_tokens_the_heaviest_samples_are_searched() -> None:
    count = module.MAX_TOKENS // 10
    batch = UpdateBatch.of_arrays(
        np.full(12, count), np.repeat([0, 1, 2], 4), np.arange(12.0),
        token=np.zeros(12 * count, np.int32), tokens=["a"],
    )  # fmt: skip
    weight = np.where(np.arange(12) == 3, 0.5, 1.0)
    _, searched = phrase_weights(batch, np.ones(batch.size), weight)
    assert searched == 10


def test_phrases_are_a_dimension_of_the_anatomy(batch: UpdateBatch) -> None:
    found = anatomy(batch, PreparedLoss(batch, ALGORITHMS["grpo"]))
    rows = [row for row in found.rows if row.dimension == "phrase"]
    assert rows[0].push == pytest.approx(rows[0].share)
    assert rows[0].value == " Let me count"
    assert found.phrase_samples == SAMPLES
