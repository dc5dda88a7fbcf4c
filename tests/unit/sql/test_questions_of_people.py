"""Questions that people ask of a run, each one query; pandas answers them from the lines themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rlpanel
from rlpanel.api.run import Run
from rlpanel.queries.reports.claim_report import annotate
from tests.factories import append, line, write_run

pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def lines(grpo_run: Path) -> pd.DataFrame:
    """The lines of the recorded run, read without rlpanel."""
    [file] = sorted(grpo_run.glob("rollout*.jsonl"))
    frame = pd.DataFrame(map(json.loads, file.read_text(encoding="utf-8").splitlines()))
    ratio = [np.subtract(p, r) for p, r in zip(frame.logprobs, frame.ref_logprobs, strict=True)]
    frame["k3"] = [float(np.mean(np.exp(-x) + x - 1)) for x in ratio]
    frame["kl"] = [np.exp(-x) + x - 1 for x in ratio]
    frame["tokens"] = frame.response_tokens.map(len)
    return frame


@pytest.fixture(scope="module")
def scalars(grpo_run: Path) -> pd.DataFrame:
    rows = (grpo_run / "scalars.jsonl").read_text(encoding="utf-8").splitlines()
    return pd.DataFrame(map(json.loads, rows))


def by_step(lines: pd.DataFrame, column: str) -> list[float]:
    return lines.groupby("step")[column].mean().tolist()


def groups_of(lines: pd.DataFrame) -> pd.DataFrame:
    return lines.groupby(["step", "group_id"]).reward.agg(["min", "max", "mean", "std"]).reset_index()


def hardest_prompt(lines: pd.DataFrame) -> list[float]:
    return [lines.groupby("prompt").reward.mean().min()]


def reward_by_step_and_language(lines: pd.DataFrame) -> list[float]:
    return lines.groupby(["step", "lang"]).reward.mean().tolist()


def highest_tokens(lines: pd.DataFrame) -> list[float]:
    of_steps = lines[lines.step.between(59, 60)]
    return [float(max(np.max(values) for values in of_steps.kl))]


#: Question → query, and the answer as numbers in the order of the rows.
QUESTIONS: dict[str, tuple[str, Callable[[pd.DataFrame], list[float]]]] = {
    "how does the reward develop": (
        "select avg(reward) from samples group by step order by step",
        lambda lines: by_step(lines, "reward"),
    ),
    "how long are the responses": (
        "select avg(response_tokens) from samples group by step order by step",
        lambda lines: by_step(lines, "tokens"),
    ),
    "how does the KL develop": (
        "select avg(kl_k3_mean) from samples group by step order by step",
        lambda lines: by_step(lines, "k3"),
    ),
    "which language has which reward": (
        "select avg(reward) from samples group by step, lang order by step, lang",
        reward_by_step_and_language,
    ),
    "how many samples have no reward at all": (
        "select count(*) from samples where reward = 0",
        lambda lines: [int((lines.reward == 0).sum())],
    ),
    "how many groups teach nothing": (
        "select count(*) from groups where reward_max = reward_min",
        lambda lines: [int((groups_of(lines)["max"] == groups_of(lines)["min"]).sum())],
    ),
    "what is the spread within groups": (
        "select avg(reward_std) from groups group by step order by step",
        lambda lines: groups_of(lines).groupby("step")["std"].mean().tolist(),
    ),
    "what is the reward of the hardest prompt": (
        "select min(r) from (select prompt_key, avg(reward) as r from samples group by prompt_key)",
        hardest_prompt,
    ),
    "does reward go with length": (
        "select corr(reward, response_tokens) from samples",
        lambda lines: [float(lines.reward.corr(lines.tokens))],
    ),
    "which part of the reward grows": (
        'select avg("rewards/rhyme_reward") from samples group by step order by step',
        lambda lines: by_step(lines, "rewards/rhyme_reward"),
    ),
    "what are the quartiles of the reward at the end": (
        "select unnest(quantile_cont(reward, [0.25, 0.5, 0.75])) from samples where step = 60",
        lambda lines: lines[lines.step == 60].reward.quantile([0.25, 0.5, 0.75]).tolist(),
    ),
    "are advantages centred": (
        "select abs(avg(advantage)) < 0.01 from samples",
        lambda lines: [abs(lines.advantage.mean()) < 0.01],
    ),
    "what is the largest KL of a token": ("select max(kl_k3) from tokens(59, 60)", highest_tokens),
    "how many tokens does a step have": (
        "select count(*) from tokens(3)",
        lambda lines: [int(lines[lines.step == 3].tokens.sum())],
    ),
    "which responses speak of a river": (
        "select count(*) from texts(1, 60) where response like '%river%'",
        lambda lines: [int(lines.response.str.contains("river", regex=False).sum())],
    ),
    "did the ground truth of a prompt change": (
        "select count(*) from (select prompt from texts(1, 60) group by prompt "
        "having count(distinct ground_truth) > 1)",
        lambda lines: [int((lines.groupby("prompt").ground_truth.nunique() > 1).sum())],
    ),
    "how many characters do answers have": (
        "select avg(chars) from turns(60) where part = 'response' and role = 'assistant'",
        lambda lines: [float(lines[lines.step == 60].response.str.len().mean())],
    ),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_one_query_answers(question: str, grpo: Run, lines: pd.DataFrame) -> None:
    query, answer = QUESTIONS[question]
    found = grpo.sql(query).iloc[:, 0].astype(float).tolist()
    assert found == pytest.approx([float(value) for value in answer(lines)], rel=1e-5)


def test_reward_against_the_learning_rate(grpo: Run, lines: pd.DataFrame, scalars: pd.DataFrame) -> None:
    query = (
        "select corr(mean, learning_rate) from "
        "(select step, avg(reward) as mean from samples group by step) join scalars using (step)"
    )
    rates = scalars.set_index("step").learning_rate
    joined = lines.groupby("step").reward.mean().to_frame().join(rates)
    assert grpo.sql(query).iloc[0, 0] == pytest.approx(joined.reward.corr(joined.learning_rate), rel=1e-5)


def test_two_runs_in_one_query(grpo: Run, ppo: Run, lines: pd.DataFrame) -> None:
    query = "select run, count(*) as n, avg(reward) as reward from samples where step > 50 group by run"
    found = grpo.sql(query, runs=[ppo]).set_index("run")
    assert sorted(found.index) == sorted([grpo.name, ppo.name])
    assert found.loc[grpo.name].tolist() == pytest.approx(
        [int((lines.step > 50).sum()), lines[lines.step > 50].reward.mean()]
    )
    other = ppo.samples()
    assert found.loc[ppo.name].reward == pytest.approx(other[other.step > 50].reward.mean())
    # A column that only one of them has is NULL in the other.
    query = "select run, count(value_mean) > 0 as has from samples group by run order by has"
    assert grpo.sql(query, runs=[ppo]).run.tolist() == [grpo.name, ppo.name]


def test_two_runs_of_one_name_stay_apart(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / place / "run", steps=count) for place, count in (("a", 1), ("b", 2))]
    first, second = (rlpanel.open_run(folder, follow=False) for folder in folders)
    found = first.sql("select run, count(*) as n from samples group by run order by n", runs=[second])
    assert found.run.tolist() == ["run", "run (2)"]
    tokens = first.sql("select run, count(*) as n from tokens(1, 2) group by run order by run", runs=[second])
    assert tokens.run.tolist() == ["run", "run (2)"]


@pytest.fixture
def mixed(tmp_path: Path) -> Run:
    """A run with evaluations, discarded samples, and a tagged sample."""
    folder = write_run(tmp_path / "mixed", steps=2, samples=4)
    append(
        folder / "rollout_data_rank_0.jsonl",
        *(line(2, index=index, split="eval", reward=9.0) for index in range(3)),
        *(line(2, index=index, split="discarded", reward=5.0) for index in range(2)),
    )
    return rlpanel.open_run(folder, follow=False)


def test_training_and_evaluations_and_discarded_samples_in_one_query(mixed: Run) -> None:
    found = mixed.sql(
        "select split, count(*) as n, max(reward) as top from all_samples group by split order by 1"
    )
    assert found[["split", "n"]].to_numpy().tolist() == [["discarded", 2], ["eval", 3], ["train", 8]]
    assert found.top.tolist()[:2] == [5.0, 9.0]
    assert mixed.sql(
        "select distinct split, count(*) as n from samples group by all"
    ).to_numpy().tolist() == [["train", 8]]
    assert mixed.split("eval").sql("select distinct split from samples").split.tolist() == ["eval"]


def test_samples_of_an_older_attempt_have_their_state(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "restarted", steps=10, samples=8)
    again = (
        line(step, index=index, response=f"{step} {index}") for step in range(5, 13) for index in range(8)
    )
    append(folder / "rollout_data_rank_0.jsonl", *again)
    run = rlpanel.open_run(folder, follow=False)
    found = run.sql("select state, count(*) as n from all_samples group by state order by state")
    assert found.to_numpy().tolist() == [["counts", 12 * 8], ["older attempt", 6 * 8]]


def test_which_samples_people_tagged(mixed: Run) -> None:
    uid = mixed.samples(1).uid[0]
    annotate(mixed.data, uid, tag="odd")
    found = mixed.sql("select n.tag, s.step from notes n join samples s using (uid)")
    assert found.to_numpy().tolist() == [["odd", 1]]


def test_turns_have_roles_calls_and_reasoning(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "2+3?"},
        {
            "role": "assistant", "content": "", "reasoning_content": "I compute",
            "tool_calls": [{"function": {"name": "add", "arguments": "{}"}}],
        },
        {"role": "tool", "content": "Error: no", "name": "add"},
        {"role": "assistant", "content": "5"},
    ]  # fmt: skip
    sample = {"step": 1, "messages": messages, "reward": 1.0}
    (tmp_path / "rollout_data_rank_0.jsonl").write_text(json.dumps(sample) + "\n")
    run = rlpanel.open_run(tmp_path, follow=False)
    found = run.sql("from turns(1) order by turn")
    assert found.role.tolist() == ["user", "assistant", "tool", "assistant"]
    assert found.part.tolist() == ["prompt", "response", "response", "response"]
    assert found.calls.tolist() == [0, 1, 0, 0]
    assert found.tools.fillna("").tolist() == ["", "add", "", ""]
    assert found.reasoning.fillna("").tolist() == ["", "I compute", "", ""]
    assert found.failed.fillna(0).tolist() == [0, 0, 1, 0]


def test_columns_have_units_and_meanings(grpo: Run) -> None:
    found = grpo.sql("from columns").set_index(["table", "column"])
    assert found.loc[("samples", "kl_k3_mean"), "unit"] == "nats"
    assert bool(found.loc[("steps", "reward_mean"), "first"])
    assert not bool(found.loc[("steps", "reward_min"), "first"])
    described = set(grpo.sql("describe steps").column_name)
    assert described == set(found.loc["steps"].index)
    assert set(grpo.sql("describe samples").column_name) == set(found.loc["samples"].index)
    short = grpo.ask("columns").rows
    assert 10 < len(short) < 40
    assert all(row["meaning"] for row in short)
