"""Steps of made-up samples, compared with the formulas of papers and trainers (`tests.textbook`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.metrics.engine.column_info import describe
from rlpanel.metrics.engine.compute import derive_columns, reduce_tokens, token_values
from rlpanel.metrics.engine.constants import gather_constants
from rlpanel.metrics.engine.segments import StepRows
from rlpanel.metrics.kl_divergence import kl_k2, kl_k3, kl_rllb, log_ratio
from tests import textbook

Tokens = list[float]


def step(
    samples: list[dict[str, Tokens]], numbers: dict[str, Tokens] | None = None, **constants: float
) -> StepRows:
    """The rows of one step, a single group."""
    known = gather_constants({}, constants)
    columns = {name: np.array(values, float) for name, values in (numbers or {}).items()}
    arrays = [{name: np.array(values) for name, values in sample.items()} for sample in samples]
    columns |= reduce_tokens(arrays, columns, known) if samples else {}
    columns |= derive_columns(columns, known)
    size = len(samples) or len(next(iter(columns.values())))
    columns["group_key"] = np.zeros(size, int)
    return StepRows(np.zeros(size, int), columns.__getitem__, known)


def value(rows: StepRows, name: str) -> float:
    """A step metric of the only step."""
    [number] = rows.value(name)
    return float(number)


def streams(*names: str, low: float = -12.0, high: float = 0.0) -> st.SearchStrategy[list[dict[str, Tokens]]]:
    """Samples with token arrays of equal lengths."""
    token = st.tuples(*[st.floats(low, high) for _ in names])
    sample = st.lists(token, min_size=1, max_size=12).map(
        lambda tokens: {name: [token[i] for token in tokens] for i, name in enumerate(names)}
    )
    return st.lists(sample, min_size=1, max_size=5)


# -- KL ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "reference", "wanted"),
    [(-0.5, -30.0, 19.0), (-12.0, -0.5, 98_703.3)],
    ids=["impossible for the reference", "impossible for the policy"],
)
def test_k3_explodes_where_the_policy_held_its_token_improbable(
    policy: float, reference: float, wanted: float
) -> None:
    found = kl_k3(np.array([policy]), np.array([reference]))[0]
    assert found == pytest.approx(wanted, rel=1e-4)
    clamped = min(20.0, reference - policy) if reference > policy else max(-20.0, reference - policy)
    assert found == pytest.approx(textbook.k3(0.0, clamped))


@pytest.mark.parametrize("column", ["kl_k3_mean", "kl_k3_sum", "kl_k3_pooled", "kl_k3_micro"])
def test_the_advice_on_k3_names_the_token_that_explodes(column: str) -> None:
    advice = describe(column).advice
    assert "A token that the policy held very unlikely and the reference did not can dominate" in advice
    assert "one that the reference holds impossible adds at most 19." in advice


def test_the_advice_on_the_number_of_rllboard_names_the_opposite_token() -> None:
    found = kl_rllb(np.array([-0.5, -12.0]), np.array([-12.0, -0.5]))
    assert found.tolist() == pytest.approx([textbook.k3(-12.0, -0.5), textbook.k3(-0.5, -12.0)])
    assert found[0] > 1000 * found[1]
    assert (
        "the reference held very unlikely and the policy did not can dominate"
        in describe("kl_rllb_mean").advice
    )


def test_no_text_says_that_a_trainer_clamps_as_rlpanel_does() -> None:
    assert "TRL does not clamp, verl limits k3 to 10, too" in describe("kl_k3_mean").source
    assert "TRL does not clamp, verl limits k3 to 10, too" in describe("kl_k3_pooled").source
    assert "does not clamp" in describe("kl_k3_micro").source


@given(streams("logprobs", "ref_logprobs"))
def test_the_three_estimators_of_every_token(samples: list[dict[str, Tokens]]) -> None:
    for sample in samples:
        found = token_values({name: np.array(values) for name, values in sample.items()})
        pairs = list(zip(sample["logprobs"], sample["ref_logprobs"], strict=True))
        for name, formula in (("log_ratio", textbook.k1), ("kl_k2", textbook.k2), ("kl_k3", textbook.k3)):
            np.testing.assert_allclose(found[name], [formula(*pair) for pair in pairs], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("estimator", [log_ratio, kl_k2, kl_k3])
@pytest.mark.parametrize("infinite", ["logprobs", "ref_logprobs"])
def test_a_token_with_an_infinite_logprob_has_no_kl_by_any_estimator(estimator: Any, infinite: str) -> None:
    sample = {"logprobs": np.full(3, -1.0), "ref_logprobs": np.full(3, -2.0)}
    odd = {**sample, infinite: np.where([False, True, False], -np.inf, sample[infinite])}
    columns = reduce_tokens([sample, odd])
    mean, total = (columns[f"{estimator.__name__}_{reduction}"] for reduction in ("mean", "sum"))
    assert mean[0] == pytest.approx(mean[1])
    assert np.isfinite(total).tolist() == [True, False]


#: Logprobs of which some are missing or infinite, as engines log them.
sometimes_scored = st.one_of(st.floats(-12, 0), st.floats(-12, 0), st.sampled_from([np.nan, np.inf, -np.inf]))


@given(
    st.lists(
        st.lists(st.tuples(st.floats(-12, 0), sometimes_scored, st.sampled_from([0.0, 1.0])), min_size=1),
        min_size=1,
        max_size=5,
    )
)
def test_tokens_that_the_engine_could_not_score_are_left_out(samples: list[list[tuple[float, ...]]]) -> None:
    arrays = [
        {"logprobs": [t[0] for t in tokens], "rollout_logprobs": [t[1] for t in tokens],
         "loss_mask": [t[2] for t in tokens]}
        for tokens in samples
    ]  # fmt: skip
    scored = [[p - e for p, e, kept in tokens if kept and math.isfinite(e)] for tokens in samples]
    together = [gap for gaps in scored for gap in gaps]
    rows = step(arrays)
    if together:
        means = [textbook.mean(gaps) if gaps else np.nan for gaps in scored]
        assert rows.column("engine_log_ratio_mean") == pytest.approx(means, abs=1e-9, nan_ok=True)
        wanted = textbook.mean([math.exp(abs(gap)) for gap in together])
        assert value(rows, "engine_mismatch") == pytest.approx(wanted, rel=1e-9)
        wanted = textbook.effective_sample_size([math.exp(gap) for gap in together]) / len(together)
        assert value(rows, "effective_sample_size") == pytest.approx(wanted, rel=1e-6)
    # The trainer scored all tokens: its own numbers do not change.
    kept = [[-p for p, _, kept in tokens if kept] for tokens in samples]
    if any(kept):
        sums = [sum(values) if values else np.nan for values in kept]
        assert rows.column("surprisal_sum") == pytest.approx(sums, abs=1e-9, nan_ok=True)


@given(st.lists(st.lists(st.tuples(sometimes_scored, sometimes_scored), min_size=1), min_size=1, max_size=5))
def test_means_over_a_steps_tokens_leave_out_those_without_a_logprob(
    samples: list[list[tuple[float, float]]],
) -> None:
    arrays = [{"logprobs": [p for p, _ in each], "ref_logprobs": [r for _, r in each]} for each in samples]
    both = [pair for each in samples for pair in each if np.isfinite(pair).all()]
    rows = step(arrays)
    if both:
        for name, formula in (("kl_k1_pooled", textbook.k1), ("kl_k3_pooled", textbook.k3)):
            wanted = textbook.mean([formula(*pair) for pair in both])
            assert value(rows, name) == pytest.approx(wanted, rel=1e-9, abs=1e-9)
        whole = [np.isfinite(each).all() for each in samples]
        assert np.isfinite(rows.column("kl_k3_sum")).tolist() == whole
    finite = [-p for each in samples for p, _ in each if math.isfinite(p)]
    if finite:
        assert value(rows, "surprisal_pooled") == pytest.approx(textbook.mean(finite), rel=1e-9, abs=1e-9)


# -- update and engine ---------------------------------------------------------------------------------------

UPDATE = ("ratio_pooled", "ratio_variance", "approxkl", "policykl", "clipfrac")


@given(streams("logprobs", "old_logprobs", low=-4), st.lists(st.sampled_from([-1.0, 0.0, 2.0]), min_size=5))
def test_numbers_of_an_update(samples: list[dict[str, Tokens]], weights: Tokens) -> None:
    weights = weights[: len(samples)]
    rows = step(samples, {"advantage": weights}, epsilon=0.2, epsilon_high=0.3)
    new, old = ([sample[name] for sample in samples] for name in ("logprobs", "old_logprobs"))
    ratios = textbook.ratios(new, old)
    logs = np.log(ratios).tolist()
    wanted = {
        "ratio_pooled": textbook.mean(ratios),
        "ratio_variance": textbook.variance(ratios, ddof=0),
        "approxkl": textbook.mean([log**2 / 2 for log in logs]),
        "policykl": textbook.mean([-log for log in logs]),
        "clipfrac": textbook.clip_fraction(new, old, weights, 0.2, 0.3),
    }
    for name in UPDATE:
        assert value(rows, name) == pytest.approx(wanted[name], rel=1e-9, abs=1e-9), name


def test_the_engines_logprobs_are_no_update() -> None:
    sample = {"logprobs": [-1.0, -2.0], "rollout_logprobs": [-1.5, -1.0], "advantages": [1.0, 1.0]}
    rows = step([sample])
    assert "ratio" not in token_values({name: np.array(values) for name, values in sample.items()})
    assert value(rows, "engine_kl") > 0
    for name in UPDATE:
        with pytest.raises(KeyError):
            rows.value(name)


@given(streams("logprobs", "rollout_logprobs", low=-4))
def test_effective_sample_size(samples: list[dict[str, Tokens]]) -> None:
    weights = textbook.ratios(*([s[name] for s in samples] for name in ("logprobs", "rollout_logprobs")))
    wanted = textbook.effective_sample_size(weights) / len(weights)
    assert value(step(samples), "effective_sample_size") == pytest.approx(wanted)


# -- critic --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("middle", "spread"), [(0.0, 1.0), (1e3, 1e-2), (1e6, 1e-2), (-1e6, 1.0)])
def test_variances_of_values_far_from_zero(middle: float, spread: float) -> None:
    random = np.random.default_rng(0)
    samples = []
    for length in (7, 1, 30):
        values = middle + spread * random.normal(size=length)
        returns = values + 0.3 * spread * random.normal(size=length)
        samples.append({"values": values.tolist(), "returns": returns.tolist()})
    rows = step(samples)
    values, returns = ([number for s in samples for number in s[name]] for name in ("values", "returns"))
    assert value(rows, "value_variance") == pytest.approx(textbook.variance(values, ddof=0), rel=1e-6)
    assert value(rows, "return_variance") == pytest.approx(textbook.variance(returns, ddof=0), rel=1e-6)
    wanted = textbook.explained_variance(values, returns)
    assert value(rows, "var_explained") == pytest.approx(wanted, rel=1e-6)


@given(streams("values", "token_rewards", low=-3, high=3), st.data())
def test_advantages_skip_tokens_that_the_policy_did_not_write(
    samples: list[dict[str, Tokens]], data: st.DataObject
) -> None:
    known = {"gamma": 0.99, "lam": 0.9}
    for sample in samples:
        length = len(sample["values"])
        sample["loss_mask"] = data.draw(
            st.lists(st.sampled_from([0.0, 1.0]), min_size=length, max_size=length)
        )
    found = reduce_tokens([{k: np.array(v) for k, v in s.items()} for s in samples], {}, known)
    means = found.get("token_advantage_mean", np.full(len(samples), np.nan))
    for sample, mean in zip(samples, means.tolist(), strict=True):
        mask = [int(written) for written in sample["loss_mask"]]
        every = textbook.gae_of_written_tokens(sample["token_rewards"], sample["values"], mask, 0.99, 0.9)
        written = [advantage for advantage, kept in zip(every, mask, strict=True) if kept]
        wanted = textbook.mean(written) if written else np.nan
        assert mean == pytest.approx(wanted, abs=1e-9, nan_ok=True)


@given(streams("values", "token_rewards", low=-3, high=3))
def test_advantages_without_a_mask(samples: list[dict[str, Tokens]]) -> None:
    arrays = [{name: np.array(values) for name, values in sample.items()} for sample in samples]
    found = reduce_tokens(arrays, {}, {"gamma": 0.99, "lam": 0.9})["token_advantage_sum"]
    wanted = [sum(textbook.gae(s["token_rewards"], s["values"], 0.99, 0.9)) for s in samples]
    np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_a_score_on_a_token_outside_the_loss_belongs_to_the_reward() -> None:
    sample = {"token_rewards": [-0.05, 0.0, 1.0], "loss_mask": [1.0, 1.0, 0.0]}
    rows = step([sample], {"reward": [1.0]})
    assert rows.column("non_score_reward")[0] == pytest.approx(-0.05)
    assert rows.column("rlhf_reward")[0] == pytest.approx(0.95)


@pytest.mark.parametrize("missing", ["logprobs", "ref_logprobs", "token_rewards"])
def test_a_missing_number_does_not_cost_the_penalty_coefficient(missing: str) -> None:
    random = np.random.default_rng(1)
    samples = []
    for _ in range(8):
        logprobs, reference = -random.exponential(size=(2, 20))
        rewards = -0.05 * (logprobs - reference)
        rewards[-1] += 1.0
        samples.append({"logprobs": logprobs, "ref_logprobs": reference, "token_rewards": rewards})
    samples[3][missing][5] = np.nan
    rows = step(samples, {"reward": [1.0] * 8})
    assert value(rows, "kl_coef_r2") == pytest.approx(1.0, abs=1e-12)
    assert value(rows, "kl_coef_fit") == pytest.approx(0.05)


# -- groups --------------------------------------------------------------------------------------------------


#: Rewards; the smallest ones are 0, because float32 cannot hold fractions of them.
rewards_in_float32 = st.floats(-4, 4, width=32).map(lambda reward: reward if abs(reward) > 1e-30 else 0.0)


@given(st.lists(rewards_in_float32, min_size=2, max_size=8))
def test_logged_advantages_in_float32_are_those_of_the_formula(rewards: Tokens) -> None:
    exact = {"grpo": textbook.grpo_advantages(rewards), "rloo": textbook.rloo_advantages(rewards)}
    for name, formula in exact.items():
        rows = step([], {"reward": rewards, "advantage": formula})
        assert not rows.value(f"advantage_less_{name}").any(), name
    single = np.array(rewards, np.float32)  # as TRL computes it, whatever the order of its sums
    logged = (single - single.mean()) / (single.std(ddof=1) + np.float32(1e-4))
    assert not step([], {"reward": rewards, "advantage": logged.tolist()}).value("advantage_less_grpo").any()


def test_advantages_of_another_formula_differ() -> None:
    rewards = [0.0, 1.0, 1.0, 0.25]
    logged = textbook.rloo_advantages(rewards)
    assert (step([], {"reward": rewards, "advantage": logged}).value("advantage_less_grpo") != 0).all()


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=9), st.sampled_from([1, 2, 4, 8]))
def test_pass_at_k_of_one_prompt(rewards: Tokens, k: int) -> None:
    found = value(step([], {"reward": rewards}), f"pass_at_{k}")
    wanted = textbook.pass_at(k, len(rewards), int(sum(rewards))) if len(rewards) >= k else np.nan
    assert found == pytest.approx(wanted, nan_ok=True)
