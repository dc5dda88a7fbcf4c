"""Estimators of the divergence, against distributions whose KL is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel.metrics.divergence import kl_k2, kl_k3, kl_rllb, log_ratio, prob, surprisal

POLICY = np.array([0.9, 0.1])
REFERENCE = np.array([0.5, 0.5])
LOGPROBS, REF_LOGPROBS = np.log(POLICY), np.log(REFERENCE)
#: KL(policy || reference) of the two above, in nats.
TRUE_KL = float((POLICY * (LOGPROBS - REF_LOGPROBS)).sum())


def expectation(estimates: np.ndarray) -> float:
    """Mean over tokens sampled from the policy."""
    return float((POLICY * estimates).sum())


def test_the_true_divergence_is_as_the_books_have_it() -> None:
    assert round(TRUE_KL, 3) == 0.368


def test_k1_and_k3_are_unbiased() -> None:
    found = [expectation(log_ratio(LOGPROBS, REF_LOGPROBS)), expectation(kl_k3(LOGPROBS, REF_LOGPROBS))]
    assert found == pytest.approx([TRUE_KL, TRUE_KL])


def test_the_predecessors_number_estimates_something_else() -> None:
    chi_square = float((POLICY**2 / REFERENCE).sum() - 1)
    found = expectation(kl_rllb(LOGPROBS, REF_LOGPROBS))
    assert (round(found, 3), found) == (0.272, pytest.approx(chi_square - TRUE_KL))


def test_k3_of_one_token_by_hand() -> None:
    assert kl_k3(np.array([-1.0]), np.array([-2.0]))[0] == pytest.approx(np.exp(-1) - 1 + 1)


def test_k2_is_half_the_square() -> None:
    assert kl_k2(np.array([-1.0, -2.0]), np.array([-3.0, -2.0])).tolist() == [2.0, 0.0]


def test_surprisal_and_probability_of_a_token() -> None:
    found = surprisal(LOGPROBS), prob(LOGPROBS)
    np.testing.assert_allclose(found, ([-np.log(0.9), -np.log(0.1)], POLICY))


def test_models_far_apart_are_taken_to_be_twenty_nats_apart() -> None:
    found = kl_k3(np.array([-1000.0, 0.0]), np.array([0.0, -1000.0]))
    np.testing.assert_allclose(found, [np.exp(20) - 21, np.exp(-20) + 19])


@pytest.mark.parametrize("estimator", [log_ratio, kl_k2, kl_k3, kl_rllb])
def test_a_nan_stays_at_its_token(estimator: object) -> None:
    found = estimator(np.array([np.nan, -1.0, -1.0]), np.array([-1.0, np.nan, -1.0]))  # type: ignore[operator]
    assert np.isnan(found).tolist() == [True, True, False]
