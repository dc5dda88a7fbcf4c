"""SQL over a run: the same numbers as its tables, NULL where nothing was logged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rlpanel
from rlpanel.api.run import Run
from rlpanel.app.demo import write_recording
from rlpanel.errors import QueryError
from rlpanel.queries.catalogue import QUESTIONS
from rlpanel.queries.findings import findings
from rlpanel.queries.groups import groups
from rlpanel.queries.reports.claim_report import annotate
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import NESTED, Table
from rlpanel.sql import run_query
from tests.factories import append, line, write_run

pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = write_run(tmp_path_factory.mktemp("run"), steps=3, ranks=2, samples=8)
    append(
        folder / "rollout_data_rank_0.jsonl",
        line(9, drop=("reward", "group"), lang="en", Reward=3.0),
        line(9, index=1, tokens=False, lang="zh").replace(b'"zh"', rb'"\ud800x"'),
    )
    return rlpanel.open_run(folder, follow=False)


def test_a_mean_by_step_is_that_of_the_samples(run: Run) -> None:
    found = run.sql("select step, avg(reward) as reward from samples group by step order by step")
    wanted = run.samples().groupby("step").reward.mean()
    assert found.step.tolist() == wanted.index.tolist()
    assert found.reward.to_numpy() == pytest.approx(wanted.to_numpy())


def test_every_column_of_the_samples_is_there(run: Run) -> None:
    found, wanted = run.sql("from samples"), run.samples()
    assert {"Reward_2" if name == "Reward" else name for name in wanted} == set(found) - {
        "prompt_key",
        "split",
    }
    assert found.uid.tolist() == wanted.uid.tolist()
    for name in wanted.select_dtypes("number"):
        values = found["Reward_2" if name == "Reward" else name].to_numpy(float, na_value=np.nan)
        assert values == pytest.approx(wanted[name].to_numpy(float), nan_ok=True), name


def test_what_was_not_logged_is_null(run: Run) -> None:
    found = run.sql(
        "select count(*) as n, count(reward) as rewards, count(lang) as langs, "
        'count("group") as groups, sum(reward) filter (reward is null) as nothing from samples where step = 9'
    )
    assert found.iloc[0].fillna(-1).tolist() == [2, 1, 2, 1, -1]


def test_an_unknown_rank_is_null(tmp_path: Path) -> None:
    append(tmp_path / "log.jsonl", line(1, drop=("rank",)))
    found = rlpanel.open_run(tmp_path, follow=False).sql("select rank from samples")
    assert found["rank"].isna().tolist() == [True]


def test_a_text_that_is_no_unicode_is_still_found(run: Run) -> None:
    assert run.sql("select lang from samples where lang like '%x'").lang.tolist() == ["\ufffdx"]


def test_a_label_is_compared_as_text(run: Run) -> None:
    assert run.sql("select count(*) as n from samples where lang = 'fr'").n.tolist() == [0]


def test_samples_of_other_splits_do_not_count(tmp_path: Path) -> None:
    write_run(tmp_path, steps=2, samples=4, split="train")
    write_run(tmp_path, steps=2, samples=3, split="eval", file_name="eval_{rank}.jsonl")
    opened = rlpanel.open_run(tmp_path, follow=False)
    count = "select count(*) as n from samples"
    assert (opened.sql(count).n[0], opened.split("eval").sql(count).n[0]) == (8, 6)


def test_a_column_that_compares_a_group_is_computed_when_it_is_read(run: Run) -> None:
    found = run.sql("select uid, grpo_advantage as a from samples where grpo_advantage is not null")
    wanted = run.samples().dropna(subset="grpo_advantage")
    assert found.a.tolist() == wanted.grpo_advantage.tolist()


def test_the_steps_are_those_of_the_run(run: Run) -> None:
    found = run.sql("from steps")
    pd.testing.assert_frame_equal(found[["step", "reward_mean"]], run.steps[["step", "reward_mean"]])
    assert list(found)[:2] == ["step", "samples"]
    assert len(list(found)) == len(list(run.steps))


def test_groups_match_pandas(run: Run) -> None:
    found = run.sql('select step, "group", samples, reward_mean from groups order by step, "group"')
    samples = run.samples().dropna(subset="group")
    wanted = samples.groupby(["step", "group"]).reward.agg(["size", "mean"]).query("size > 1").reset_index()
    assert found["group"].tolist() == wanted["group"].tolist()
    assert found.samples.tolist() == wanted["size"].tolist()
    assert found.reward_mean.tolist() == pytest.approx(wanted["mean"].tolist())


def test_a_run_without_groups_has_an_empty_table(tmp_path: Path) -> None:
    append(tmp_path / "log.jsonl", *(line(1, index=4 * at, drop=("group",)) for at in range(3)))
    opened = rlpanel.open_run(tmp_path, follow=False)
    assert len(opened.sql("select step, reward_mean, signal from groups")) == 0


def test_tokens_are_those_of_the_samples(run: Run) -> None:
    found = run.sql("select uid, position, token, surprisal, value from tokens(2, 3) order by all")
    rows = []
    for uid in run.sql("select uid from samples where step in (2, 3)").uid:
        sample = run.sample(uid)
        assert sample.response_tokens is not None
        assert sample.logprobs is not None
        assert sample.values is not None
        for at, token in enumerate(sample.response_tokens):
            rows.append((uid, at, token, -sample.logprobs[at], sample.values[at]))
    assert list(found.itertuples(index=False, name=None)) == sorted(rows)


def test_two_calls_of_tokens_are_told_apart(run: Run) -> None:
    both = run.sql("select (select count(*) from tokens(1)) as a, (select count(*) from tokens(1, 3)) as b")
    one = run.sql("select count(*) as n from tokens(1)").n[0]
    assert both.a[0] == one
    assert both.b[0] > one


def test_a_sample_without_tokens_has_none(run: Run) -> None:
    assert run.sql("select distinct uid from tokens(9)").uid.tolist() == run.samples(9).uid.tolist()[:1]


def test_a_metric_of_tokens_that_was_not_logged_is_null(run: Run) -> None:
    assert run.sql("select count(token_entropy) as n from tokens(1)").n.tolist() == [0]


def test_tokens_of_too_many_lines_are_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlpanel.sql.sample_relation.MAX_BYTES", 1000)
    with pytest.raises(QueryError, match="choose fewer steps"):
        run.sql("from tokens(1, 3)")


def test_findings_are_a_table(tmp_path: Path) -> None:
    write_run(tmp_path, steps=30, samples=8, reward=0.5)
    opened = rlpanel.open_run(tmp_path, follow=False)
    found = opened.sql(f"select {', '.join(findings.spec.relation)} from findings")
    assert len(found)
    assert found.sentence.tolist() == opened.findings.sentence.tolist()
    assert not (found.select_dtypes(exclude="number") == "").to_numpy().any()


def test_prompts_of_both_kinds_are_a_table(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        rewards = (0.0, 0.0, float(step == 2), 0.0)
        lines = [
            line(step, index=at, prompt=f"p{at // 2}", reward=reward) for at, reward in enumerate(rewards)
        ]
        append(tmp_path / "log.jsonl", *lines)
    opened = rlpanel.open_run(tmp_path, follow=False)
    found = opened.sql("select kind, prompt_key, steps, target, spread from prompts")
    wanted = [
        (kind, row["prompt_key"], row["steps"], row["target"], row["spread"])
        for kind in ("unsolved", "variable")
        for row in opened.ask("prompts", kind).rows
    ]
    rows = found.astype(object).where(found.notna(), None).itertuples(index=False, name=None)
    assert list(rows) == wanted
    assert {kind for kind, *_ in wanted} == {"unsolved", "variable"}


def test_clusters_and_notes_are_tables(tmp_path: Path) -> None:
    lines = [line(1, index=at, response="the same words again and again") for at in range(5)]
    append(tmp_path / "log.jsonl", *lines)
    opened = rlpanel.open_run(tmp_path, follow=False)
    assert opened.sql("select size, texts, first from clusters").to_numpy().tolist() == [[5, 1, 1]]
    assert len(opened.sql("from notes")) == 0
    uid = opened.samples().uid[0]
    annotate(opened.data, uid, tag="odd")
    found = opened.sql("select n.tag, n.note, s.step from notes n join samples s using (uid)")
    assert found.astype(object).where(found.notna(), None).to_numpy().tolist() == [["odd", None, 1]]


@pytest.mark.parametrize(
    "name", ["update", "what_if", "reward_pays", "token_trend", "changed_tokens", "learned"]
)
def test_questions_for_an_update_have_the_rows_of_their_usual_options(tmp_path: Path, name: str) -> None:
    with rlpanel.open_run(write_recording("grpo_calculator", tmp_path / "run"), follow=False) as run:
        asked = run.ask(name, **QUESTIONS[name].relation_options)
        found = run.sql(f"from {name}")
        assert len(found) == asked.size == asked.total > 0
        for column in asked.columns:
            if column.name not in found or column.type in NESTED:
                continue
            wanted = [None if each == "" or pd.isna(each) else each for each in asked.relation()[column.name]]
            shown = [None if pd.isna(each) else each for each in found[column.name]]
            assert shown == wanted, column.name


def test_tables_can_be_joined(run: Run) -> None:
    found = run.sql(
        "with low as (select step, uid from samples where reward < 0.5) "
        "select s.step, count(uid) as n from steps s left join low using (step) group by s.step order by 1"
    )
    assert found.n.sum() == (run.samples().reward < 0.5).sum()


def not_made(run: RunData) -> Table:
    raise AssertionError(f"{run.name}: this table is made without need")


def test_only_tables_that_are_named_are_made(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(QUESTIONS, "groups", replace(groups, function=not_made))
    monkeypatch.setattr(run_query, "step_tokens", None)
    assert len(run.sql("select step from samples")) == len(run.samples())


@pytest.mark.parametrize("text", ["prompt", "response", "ground_truth"])
def test_a_text_is_no_column_and_the_error_tells_where_it_is(run: Run, text: str) -> None:
    with pytest.raises(QueryError, match=f"{text} is no column.*rlpanel search"):
        run.sql(f"select {text} from samples")


def test_the_column_group_needs_quotes_and_the_error_says_so(run: Run) -> None:
    with pytest.raises(QueryError, match="needs double quotes"):
        run.sql("select group from samples")


def test_an_empty_result_has_its_columns(run: Run) -> None:
    assert list(run.sql("select step, reward from samples where step = 77")) == ["step", "reward"]


def test_a_run_without_samples_has_empty_tables(tmp_path: Path) -> None:
    (tmp_path / "rollout_data_rank_0.jsonl").write_bytes(b"")
    opened = rlpanel.open_run(tmp_path, follow=False)
    assert opened.sql("select count(*) as n from samples").n.tolist() == [0]
    assert len(opened.sql("from groups")) == len(opened.sql("from tokens(1)")) == 0


def test_the_texts_of_some_steps_are_a_table(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=3, samples=4)
    with rlpanel.open_run(folder, follow=False) as run:
        found = run.sql("select uid, step, prompt, response from texts(2, 3) order by uid")
        logged = run.samples((2, 3), text=True).sort_values("uid")
        for name in ("uid", "step", "prompt", "response"):
            assert found[name].tolist() == logged[name].tolist()
        both = "select count(*) as n from texts(1) join samples using (uid) where response like '%'"
        assert run.sql(both).n.tolist() == [len(run.samples(1))]
