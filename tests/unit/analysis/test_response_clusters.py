"""Near-duplicate responses are found over a range of steps."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

import rlpanel
from rlpanel.analysis.response_clusters import Clustering, response_clusters, signature, similar_texts

WORDS = [f"w{number}" for number in range(2000)]
REFUSAL = "I am sorry but as a language model I can not answer this question about topic number"


def run_of(folder: Path) -> rlpanel.Run:
    """A run of random responses; from step 3 on, every fourth is a refusal that differs in its last word."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "rollout_data_rank_0.jsonl").open("w") as file:
        for step in range(1, 7):
            for index in range(16):
                chance = random.Random(f"{step}-{index}")
                response = " ".join(chance.choices(WORDS, k=30))
                if step >= 3 and index % 4 == 0:
                    response = f"{REFUSAL} {chance.choice(WORDS)}"
                if step == 5 and index % 4 == 1:
                    response = ""
                made = {"step": step, "prompt": f"{step} {index}", "response": response, "reward": index % 4}
                file.write(json.dumps(made) + "\n")
    return rlpanel.open_run(folder, follow=False)


def clustered(run: rlpanel.Run, first: int, last: int) -> Clustering:
    *_, found = response_clusters(run.index, run.snapshot, first, last)
    return found


def test_a_planted_cluster_is_described(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    first, second = clustered(run, 1, 6).clusters
    assert (first.size, first.first, first.last, first.prompts, first.reward) == (16, 3, 6, 16, 0.0)
    assert (second.size, second.example, second.first, second.last) == (4, "", 5, 5)
    responses = [run.sample(uid).response or "" for uid in run.snapshot.uids(first.rows)]
    assert all(response.startswith(REFUSAL) for response in responses)
    assert run.sample(first.uid).response == first.example


def test_only_the_steps_of_the_range_count(tmp_path: Path) -> None:
    found = clustered(run_of(tmp_path), 1, 3)
    assert ([cluster.size for cluster in found.clusters], found.all_samples) == ([4], 48)


def test_random_responses_have_no_cluster(tmp_path: Path) -> None:
    assert clustered(run_of(tmp_path), 1, 2).clusters == ()


def test_the_signature_estimates_the_share_of_common_sequences() -> None:
    draw = np.random.default_rng(0)
    for _ in range(20):
        words = draw.integers(0, 500, 200).tolist()
        other = [*words[: draw.integers(20, 190)], *draw.integers(0, 500, 60).tolist()]
        sets = [
            set(zip([-1, *text], [*text, -1], [*text[1:], -1, -1], strict=False)) for text in (words, other)
        ]
        truth = len(sets[0] & sets[1]) / len(sets[0] | sets[1])
        estimate = float((signature(words) == signature(other)).mean())
        assert estimate == pytest.approx(truth, abs=0.15)


def test_pairs_above_the_threshold_are_united_and_others_are_not() -> None:
    draw = np.random.default_rng(1)
    texts, truth = [], []
    for cluster in range(30):
        base = draw.integers(0, 10_000, 120).tolist()
        for _ in range(5):
            changed = list(base)
            changed[int(draw.integers(120))] = -5
            texts.append(changed)
            truth.append(cluster * 6)
        texts.append([*base[:80], *draw.integers(0, 10_000, 40).tolist()])  # half of its sequences are new
        truth.append(cluster * 6 + 5)
    assert similar_texts(np.stack([signature(text) for text in texts])).tolist() == truth


def test_a_run_without_responses_has_no_cluster(tmp_path: Path) -> None:
    (tmp_path / "rollout_data_rank_0.jsonl").write_text('{"step": 1, "prompt": "a", "reward": 1.0}\n')
    found = clustered(rlpanel.open_run(tmp_path, follow=False), 1, 1)
    assert (found.clusters, found.complete) == ((), True)
