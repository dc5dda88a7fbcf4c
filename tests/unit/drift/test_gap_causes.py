"""The cause of the gap between trainer and engine is named for engines whose difference is known."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.drift.corrections import CORRECTIONS, corrected
from rlpanel.drift.gap_cause_kinds import Verdict
from rlpanel.drift.gap_causes import verdict
from rlpanel.drift.gap_levels import carried, gap_levels
from rlpanel.drift.gap_tokens import GapTokens, chosen_rows, read_gap_tokens
from rlpanel.errors import SettingError
from tests.unit.drift import bigrams


def tokens_of(folder: Path) -> GapTokens:
    """Return the tokens of a run."""
    with rlpanel.open_run(folder) as run:
        run.wait()
        *_, tokens = read_gap_tokens(run.index, run.snapshot, chosen_rows(run.snapshot))
    assert isinstance(tokens, GapTokens)
    return tokens


def judged(tmp_path: Path, engine: bigrams.Engine, seed: int = 0, **options: Any) -> Verdict:
    """Return the verdict on a run of an engine."""
    return verdict(tokens_of(bigrams.write(tmp_path / "run", engine, seed, **options)))


@pytest.mark.parametrize(
    ("cause", "engine", "options"),
    [
        ("precision", bigrams.rounding(), {}),
        ("precision", bigrams.rounding(0.04), {}),
        ("temperature", bigrams.sharpened(0.8), {}),
        ("temperature", bigrams.sharpened(1.15), {"entropy": False}),
        ("support", bigrams.nucleus, {}),
        ("shift", bigrams.rounding(), {"shifted": True}),
        ("mask", bigrams.rounding(), {"filled": 12, "masked": False}),
        ("precision", bigrams.rounding(), {"filled": 12}),
        ("stale", bigrams.old_weights, {"ages": 6}),
        ("sync", bigrams.stuck(4), {}),
        ("sync", bigrams.broken(4), {}),
        ("sync", bigrams.stuck(4, rank=1), {}),
        ("place", bigrams.on_rank(1), {}),
        ("position", bigrams.far, {}),
        ("template", bigrams.without_prompt, {}),
        ("template", bigrams.half_without_prompt, {}),
        ("routing", bigrams.routed, {}),
    ],
)
def test_cause_is_named(tmp_path: Path, cause: str, engine: bigrams.Engine, options: dict[str, Any]) -> None:
    found = judged(tmp_path, engine, **options)
    assert (found.cause, found.advice != "") == (cause, True), found


@pytest.mark.parametrize(
    "seed", [0, 1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)]
)
def test_no_cause_is_named_where_two_have_the_same_part(tmp_path: Path, seed: int) -> None:
    found = judged(tmp_path, bigrams.old_and_rounded, seed, ages=6)
    assert found.cause == ""
    assert {cause.key for cause in found.causes} == {"stale", "precision"}
    assert "do not show one cause" in found.sentence


def one_file(folder: Path, **numbers: Any) -> Path:
    """Write a run whose second of two engines is wrong to one file; numbers are made from the engine's."""
    lines = []
    for engine in (0, 1):
        part = bigrams.write(folder / "parts", bigrams.on_rank(1)) if engine == 0 else folder / "parts"
        for text in (part / f"rank_{engine}.jsonl").read_text().splitlines():
            line = json.loads(text)
            lines.append(line | {name: make(engine) for name, make in numbers.items()})
    (folder / "run").mkdir()
    lines.sort(key=lambda line: line["step"])
    (folder / "run" / "rollouts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder / "run"


@pytest.mark.parametrize("name", ["engine_id", "worker", "replica_rank", "batch_index", "env", "machine"])
def test_an_engine_that_is_logged_as_a_number_is_named(tmp_path: Path, name: str) -> None:
    found = verdict(tokens_of(one_file(tmp_path, **{name: lambda engine: engine + 3})))
    assert found.cause == "place"
    assert f"with {name} 4 the gap is" in found.sentence


def test_a_number_that_measures_something_is_no_place(tmp_path: Path) -> None:
    """The latency is high on one engine, but other latencies are no other places."""
    tokens = tokens_of(one_file(tmp_path, latency=lambda engine: 2.0 + engine, batch_size=lambda engine: 8))
    assert tokens.labels == {}


def test_a_number_that_may_be_an_id_is_named_and_not_compared(tmp_path: Path) -> None:
    numbers = {"colour": lambda engine: engine, "reward": lambda engine: engine, "size": lambda engine: 8}
    numbers["angle"] = lambda engine: engine + 0.5
    tokens = tokens_of(one_file(tmp_path, **numbers))
    assert tokens.labels == {}
    assert "places by colour: log a number that is an id as text" in verdict(tokens).unchecked


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
@pytest.mark.parametrize("scale", [0.003, 0.02])
def test_rounding_alone_has_no_other_cause(tmp_path: Path, seed: int, scale: float) -> None:
    found = judged(tmp_path, bigrams.rounding(scale), seed)
    assert [cause.key for cause in found.causes] == ["precision"]


def test_large_flat_gap_without_versions_is_left_open(tmp_path: Path) -> None:
    found = judged(tmp_path, bigrams.rounding(0.2), versions=False)
    assert found.cause == ""
    assert "Log policy_version" in found.advice
    assert "stale weights: log policy_version" in found.unchecked


def test_equal_logprobs_have_no_gap(tmp_path: Path) -> None:
    found = judged(tmp_path, bigrams.rounding(0.0))
    assert (found.cause, found.causes) == ("", ())
    assert "agree" in found.sentence


def test_few_tokens_name_no_cause(tmp_path: Path) -> None:
    tokens = tokens_of(bigrams.write(tmp_path / "run", bigrams.nucleus))
    assert verdict(tokens).cause == "support"
    found = verdict(tokens.only(np.arange(len(tokens.trainer)) < 100))
    assert (found.cause, found.causes) == ("", ())
    assert "trained tokens with both logprobs were read, and 256 are needed" in found.sentence


def test_engine_with_one_logprob_for_all_tokens_has_no_cause(tmp_path: Path) -> None:
    tokens = tokens_of(bigrams.write(tmp_path / "run", bigrams.nucleus))
    found = verdict(replace(tokens, engine=np.full(len(tokens.engine), -0.5)))
    assert (found.cause, found.causes) == ("", ())
    assert "the engine's logprobs have 1 different values" in found.sentence
    assert "rollout_logprobs" in found.advice


def test_missing_arrays_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    lines = ['{"step": 0, "prompt": "p", "response": "r", "reward": 1.0, "logprobs": [-1.0, -0.5]}'] * 3
    lines[2] = lines[2].replace("}", ', "rollout_logprobs": [-1.0]}')
    (folder / "rank_0.jsonl").write_text("\n".join(lines) + "\n")
    tokens = tokens_of(folder)
    assert (tokens.read, tokens.without + tokens.unequal, len(tokens.trainer)) == (3, 3, 0)
    assert verdict(tokens).sentence.startswith("Not checkable: log logprobs and rollout_logprobs")
    assert carried(tokens) == {}


def test_levels_add_up(tmp_path: Path) -> None:
    tokens = tokens_of(bigrams.write(tmp_path / "run", bigrams.on_rank(1)))
    levels = [level for level in gap_levels(tokens) if level.dimension == "rank"]
    assert [level.value for level in levels] == ["0", "1"]
    assert sum(level.share for level in levels) == pytest.approx(1)
    assert sum(level.tokens for level in levels) == len(tokens.trainer)
    assert levels[1].mean == pytest.approx(abs(tokens.gap[tokens.ranks[tokens.sample] == 1]).mean())
    largest = np.sort(abs(tokens.gap))[-10:].sum() / abs(tokens.gap).sum()
    assert carried(tokens)[10] == pytest.approx(largest)


@pytest.fixture(scope="module")
def sharpened(tmp_path_factory: pytest.TempPathFactory) -> GapTokens:
    """The tokens of an engine at another temperature."""
    return tokens_of(bigrams.write(tmp_path_factory.mktemp("sharpened") / "run", bigrams.sharpened(0.8)))


@pytest.mark.parametrize("name", CORRECTIONS)
def test_corrections_follow_their_formula(sharpened: GapTokens, name: str) -> None:
    tokens = sharpened
    rule, result = CORRECTIONS[name], corrected(tokens, name)
    for sample in range(3):
        log = [float(x) for x in tokens.gap[tokens.sample == sample]]
        whole = {"": log, "sum": [sum(log)] * len(log), "mean": [sum(log) / len(log)] * len(log)}[
            rule.sequence
        ]
        ratio = [math.exp(x) for x in whole]
        expected = [
            (0.0 if rule.masks else min(max(r, rule.low), rule.high)) if not rule.low <= r <= rule.high else r
            for r in ratio
        ]
        assert result.weight[tokens.sample == sample].tolist() == pytest.approx(expected)
    weights = result.weight.tolist()
    assert result.effective == pytest.approx(sum(weights) ** 2 / (len(weights) * sum(w * w for w in weights)))


def test_wrong_bounds_are_refused(tmp_path: Path) -> None:
    tokens = tokens_of(bigrams.write(tmp_path / "run", bigrams.rounding()))
    with pytest.raises(SettingError, match="in order"):
        corrected(tokens, "tis", 3, 2)
    with pytest.raises(SettingError, match="no correction"):
        corrected(tokens, "tiss")
