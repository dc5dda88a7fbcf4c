"""The change of a curve over tokens is split into shares of token strings and positions."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import rlpanel
from rlpanel.analysis.token_change import TokenChange, explain_tokens
from rlpanel.errors import SettingError

WORDS = ("a", "b", "c", "d")


def run_of(folder: Path, *, mask: bool = False) -> rlpanel.Run:
    """A run of two steps; at step 2 the token ``<|im_start|>`` at position 3 has a large log-ratio."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "rollout_data_rank_0.jsonl").open("w") as file:
        for step in (1, 2):
            for index in range(12):
                chance = random.Random(f"{step}-{index}")
                tokens = [chance.choice(WORDS) for _ in range(chance.randint(5, 9))]
                ref = [-1.0 - chance.random() for _ in tokens]
                logprobs = [value + chance.gauss(0.0, 0.1) for value in ref]
                if step == 2 and index in (2, 5, 7):
                    tokens[2], logprobs[2] = "<|im_start|>", ref[2] + 6.0
                made = {
                    "step": step,
                    "prompt": f"{step} {index}",
                    "response": "".join(tokens),
                    "response_tokens": tokens,
                    "logprobs": logprobs,
                    "ref_logprobs": ref,
                }
                if mask:
                    made["loss_mask"] = [0, *[1] * (len(tokens) - 1)]
                file.write(json.dumps(made) + "\n")
    return rlpanel.open_run(folder, follow=False)


def explained(run: rlpanel.Run, curve: str) -> TokenChange:
    *_, last = explain_tokens(run.index, run.snapshot, curve, 2)
    return last


@pytest.mark.parametrize("mask", [False, True], ids=["all tokens", "loss mask"])
@pytest.mark.parametrize("curve", ["log_ratio_mean", "log_ratio_sum", "kl_k1_pooled", "kl_k3_mean"])
def test_shares_of_tokens_and_positions_add_up_to_one(tmp_path: Path, curve: str, mask: bool) -> None:
    found = explained(run_of(tmp_path, mask=mask), curve)
    for kind in ("token", "position"):
        assert sum(part.share for part in found.parts if part.kind == kind) == pytest.approx(1.0)


@pytest.mark.parametrize("curve", ["log_ratio_mean", "log_ratio_sum", "kl_k1_pooled"])
def test_the_values_are_those_of_the_curve(tmp_path: Path, curve: str) -> None:
    run = run_of(tmp_path, mask=True)
    found = explained(run, curve)
    assert [found.before, found.value] == pytest.approx(run.view.step_values(curve).tolist())


def test_a_tokens_share_is_that_of_a_plain_loop(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    samples = [run.sample(uid) for uid in run.samples().uid]
    means: dict[int, float] = {}
    added: dict[int, float] = {}
    for step in (1, 2):
        here = [sample for sample in samples if sample.step == step]
        ratios = [[a - b for a, b in zip(s.logprobs, s.ref_logprobs, strict=True)] for s in here]
        means[step] = sum(sum(r) / len(r) for r in ratios) / len(here)
        added[step] = 0.0
        for sample, ratio in zip(here, ratios, strict=True):
            for token, value in zip(sample.response_tokens, ratio, strict=True):
                if token == "<|im_start|>":
                    added[step] += (value - means[1]) / len(ratio) / len(here)
    part = explained(run, "log_ratio_mean").parts[0]
    expected = (added[2] - added[1]) / (means[2] - means[1])
    assert (part.name, part.count, part.share) == ("<|im_start|>", 3, pytest.approx(expected))


def test_the_planted_position_and_its_samples_are_named(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    found = explained(run, "log_ratio_mean")
    token = next(part for part in found.parts if part.kind == "token")
    position = next(part for part in found.parts if part.kind == "position")
    holds = [uid for uid in run.samples(2).uid if "<|im_start|>" in (run.sample(uid).response or "")]
    assert (position.name, set(token.uids), token.where) == (
        "2–4",
        set(holds),
        'response contains "<|im_start|>"',
    )


def test_a_curve_without_tokens_gets_a_message(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    with pytest.raises(SettingError, match="not a mean or sum over tokens"):
        explained(run, "response_chars")
