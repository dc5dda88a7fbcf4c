"""KL estimators, compared with distributions whose KL is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.metrics.engine.compute import reduce_tokens
from rlpanel.metrics.kl_divergence import kl_k2, kl_k3, kl_rllb, log_ratio, prob, surprisal

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


def test_estimators_of_two_gaussians_come_to_the_closed_form() -> None:
    # KL of N(0, 1) from N(0.5, 1.5²), integrated over the policy's density on a fine grid.
    x = np.linspace(-12, 12, 200_001)
    logp = -(x**2) / 2 - np.log(np.sqrt(2 * np.pi))
    ref = -(((x - 0.5) / 1.5) ** 2) / 2 - np.log(1.5 * np.sqrt(2 * np.pi))
    wanted = np.log(1.5) + (1 + 0.5**2) / (2 * 1.5**2) - 0.5
    weight = np.exp(logp) * (x[1] - x[0])
    found = [float((weight * estimator(logp, ref)).sum()) for estimator in (log_ratio, kl_k3)]
    assert found == pytest.approx([wanted, wanted], abs=1e-6)


@given(st.lists(st.tuples(st.floats(-800, 0), st.floats(-800, 0)), min_size=1))
def test_k3_is_never_negative(pairs: list[tuple[float, float]]) -> None:
    one, other = np.array(pairs).T
    assert (kl_k3(one, other) >= 0).all()


def test_what_k3_clamps_is_counted() -> None:
    far = {"logprobs": np.array([-1.0, -30.0, 0.0]), "ref_logprobs": np.array([-1.0, -1.0, -19.0])}
    assert reduce_tokens([far])["_clamped_sum"].tolist() == [1.0]


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
