"""Experts by token: the share of layers in which trainer and engine differ, and the load of each expert."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.drift.expert_load import load_levels
from rlpanel.drift.gap_causes import verdict
from rlpanel.drift.gap_tokens import GapTokens, chosen_rows, read_gap_tokens
from rlpanel.queries.drift import experts as experts_question

TOKENS, LAYERS, EXPERTS, CHOSEN = 60, 3, 6, 2


def routed_run(folder: Path, *, wrong: float = 0.04, noise: float = 0.3, logs: bool = True) -> Path:
    """Write a run in which the engine takes other experts now and then, and differs there."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    with (folder / "rank_0.jsonl").open("w") as file:
        for number in range(96):
            trainer = np.argsort(rng.random((TOKENS, LAYERS, EXPERTS)), -1)[..., :CHOSEN]
            engine = trainer[..., ::-1].copy()  # the order within a layer has no meaning
            other = rng.random((TOKENS, LAYERS)) < wrong
            engine[other] = (engine[other] + 1) % EXPERTS
            differs = (np.sort(trainer) != np.sort(engine)).any((1, 2))
            logprobs = -rng.exponential(0.6, TOKENS) - 0.05
            gap = rng.normal(0, 0.01, TOKENS) + differs * rng.normal(0, noise, TOKENS)
            line: dict[str, Any] = {
                "step": number // 12,
                "prompt": "p",
                "response": "r" * TOKENS,
                "reward": 1.0,
            }
            line |= {"response_tokens": ["r"] * TOKENS, "logprobs": logprobs.tolist()}
            line["rollout_logprobs"] = np.minimum(logprobs - gap, 0.0).tolist()
            if logs:
                line |= {"routed_experts": trainer.tolist(), "rollout_routed_experts": engine.tolist()}
            file.write(json.dumps(line) + "\n")
    return folder


def tokens_of(folder: Path) -> GapTokens:
    with rlpanel.open_run(folder, follow=False) as run:
        *_, tokens = read_gap_tokens(run.index, run.snapshot, chosen_rows(run.snapshot))
    assert isinstance(tokens, GapTokens)
    return tokens


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in (folder / "rank_0.jsonl").read_text().splitlines()]


def test_mismatch_of_a_token_is_the_share_of_layers_with_another_set(tmp_path: Path) -> None:
    folder = routed_run(tmp_path / "run")
    with rlpanel.open_run(folder, follow=False) as run:
        sample = run.sample(run.samples()["uid"][0])
        column = run.samples()["token_routing_mismatch_mean"]
    shares = []
    for line in lines_of(folder):
        pairs = zip(line["routed_experts"], line["rollout_routed_experts"], strict=True)
        shares.append(
            [sum(set(a) != set(b) for a, b in zip(one, two, strict=True)) / LAYERS for one, two in pairs]
        )
    assert sample.routing_mismatch is not None
    assert sample.routing_mismatch.tolist() == pytest.approx(shares[0])
    assert column.tolist() == pytest.approx([sum(each) / TOKENS for each in shares])


def test_load_is_counted_by_layer_and_expert(tmp_path: Path) -> None:
    folder = routed_run(tmp_path / "run")
    load = tokens_of(folder).experts
    counts = Counter[tuple[int, int]]()
    for line in lines_of(folder):
        for token in line["routed_experts"]:
            counts.update((layer, expert) for layer, chosen in enumerate(token) for expert in chosen)
    levels = load_levels(load)
    assert {(each.layer, each.expert): each.tokens for each in levels} == dict(counts)
    mean = sum(counts[0, expert] for expert in range(EXPERTS)) / EXPERTS
    assert levels[1].load == pytest.approx(counts[0, 1] / mean)
    assert (load.without, load.unlike) == (0, 0)


def test_logged_routing_names_the_cause_and_its_places(tmp_path: Path) -> None:
    found = verdict(tokens_of(routed_run(tmp_path / "run")))
    assert found.cause == "routing"
    assert "other experts" in found.sentence


def test_routing_that_makes_no_gap_is_no_cause(tmp_path: Path) -> None:
    found = verdict(tokens_of(routed_run(tmp_path / "run", noise=0.0)))
    assert "routing" not in {cause.key for cause in found.causes}


@pytest.mark.parametrize(
    ("trainer", "engine", "note"),
    [
        ([[[0, 1]], [[2]]], None, "different numbers of experts"),
        ([["a"], ["b"]], None, "no list of experts' ids"),
        ([[[0, 1]], [[2, 3]]], [[[0, 1]]], "are not compared"),
    ],
)
def test_experts_that_cannot_be_read_are_named(tmp_path: Path, trainer: Any, engine: Any, note: str) -> None:
    line = {"step": 1, "prompt": "p", "response": "ab", "logprobs": [-1.0, -2.0], "experts": trainer}
    line |= {"rollout_experts": engine} if engine else {}
    (tmp_path / "rank_0.jsonl").write_text(json.dumps(line) + "\n")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert note in str(run.samples()["field_remarks"][0])
        assert len(run.samples()) == 1


def test_a_run_without_experts_says_what_to_log(tmp_path: Path) -> None:
    with rlpanel.open_run(routed_run(tmp_path / "run", logs=False), follow=False) as run:
        table = experts_question(run.data)
    assert len(table.frame()) == 0
    assert (table.about["without"], table.about["layers"]) == (96, 0)
    assert table.about["advice"].startswith("Log experts")
