"""Every table holds plain values only, and its output keeps to the schema generated from its columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import rlpanel
from rlpanel.api.run import Run
from rlpanel.errors import FilterError, RunNotFound, SampleNotFound, SettingError
from rlpanel.queries.catalogue import QUESTIONS, document_schema, question_of, row_schema
from rlpanel.queries.drift import corrections, drift, experts, taken_away
from rlpanel.queries.events import events, news
from rlpanel.queries.explain import bisect, clusters, contrast, explain
from rlpanel.queries.findings import findings, lint
from rlpanel.queries.gate import gate
from rlpanel.queries.groups import groups
from rlpanel.queries.learning.rewards import reward_parts, reward_pays
from rlpanel.queries.learning.token_courses import changed_tokens, token_trend
from rlpanel.queries.learning.trends import learned, trend
from rlpanel.queries.learning.update import update, what_if
from rlpanel.queries.prompt_list import prompt_costs, prompts
from rlpanel.queries.question_options import selection_of
from rlpanel.queries.reports.claim_report import add_entry, annotate, notes, remove_entry, report
from rlpanel.queries.rollout_outcomes import failures, judges
from rlpanel.queries.rollouts import in_flight, tree
from rlpanel.queries.runs import runs
from rlpanel.queries.sample import sample, sample_tokens
from rlpanel.queries.samples import samples, search
from rlpanel.queries.sql import column_list, sql
from rlpanel.queries.steps import scalars, steps
from rlpanel.queries.table import Table
from rlpanel.queries.tokens import tokens
from rlpanel.queries.two_runs import compare, diverge, settings_list
from rlpanel.texts.shorten import TextLimit
from tests.factories import append, write_run
from tests.unit.drift import bigrams
from tests.unit.drift.test_expert_load import routed_run

UPSTREAM = Path(__file__).parents[2] / "data" / "upstream"


@pytest.fixture
def noted(tmp_path: Path) -> Iterator[Run]:
    append(write_run(tmp_path, steps=1) / "rollout_data_rank_0.jsonl", b"{\n")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        annotate(run.data, run.snapshot.uid(0), tag="odd")
        annotate(run.data, "step:1", note="lowered lr")
        yield run


@pytest.fixture
def routed(tmp_path: Path) -> Iterator[Run]:
    with rlpanel.open_run(routed_run(tmp_path / "routed"), follow=False) as run:
        yield run


@pytest.fixture
def drifting(tmp_path: Path) -> Iterator[Run]:
    with rlpanel.open_run(bigrams.write(tmp_path / "drifting", bigrams.stuck(4)), follow=False) as run:
        yield run


@pytest.fixture
def flying(tmp_path: Path) -> Iterator[Run]:
    folder = tmp_path / "flying"
    write_run(folder, steps=1)
    (folder / "in_flight").mkdir()
    delta = {
        "begin": "e1",
        "step": 2,
        "phase": "tool",
        "time": 1.0,
        "turns": 3,
        "tokens": 9,
        "text": "I look",
    }
    (folder / "in_flight" / "rank_0.live").write_text('{"rlpanel_live": 1}\n' + json.dumps(delta) + "\n")
    with rlpanel.open_run(folder, follow=False) as run:
        yield run


@pytest.fixture
def settled(tmp_path: Path) -> Iterator[Run]:
    folder = write_run(tmp_path / "settled", steps=1)
    (folder / "config.yaml").write_text("lr: 1e-6\napi_key: abcdefgh\n")
    with rlpanel.open_run(folder, follow=False) as run:
        yield run


def all_tables(
    grpo: Run, ppo: Run, noted: Run, drifting: Run, flying: Run, settled: Run, routed: Run
) -> Iterator[Table]:
    uid = samples(grpo.data, step=10, limit=1).rows[0]["uid"]
    yield runs(grpo.path.parent)
    yield steps(grpo.data, columns=["*"])
    yield samples(grpo.data, filter="reward < 1", sort="-kl_k3_mean", limit=5)
    yield samples(grpo.data, step=10, columns=["*"], text=True, chars=20)
    yield sample(grpo.data, uid)
    yield sample_tokens(ppo.data, ppo.snapshot.uid(5))
    yield tree(grpo.data, uid)
    yield groups(grpo.data, 10)
    yield prompts(grpo.data, "unsolved")
    yield prompts(grpo.data, "variable")
    yield prompt_costs(grpo.data)
    yield prompt_costs(grpo.data, classes=["never"], least_steps=1, text=True, limit=2)
    yield tokens(ppo.data, 10)
    yield findings(grpo.data)
    yield news(grpo.data, 5)
    yield news(noted.data, 0)
    yield lint(grpo.data, 2)
    yield gate(grpo.data, [grpo.data, ppo.data])
    yield contrast(grpo.data, 10, 1)
    yield explain(grpo.data, "reward", 10)
    yield clusters(grpo.data)
    yield bisect(grpo.data)
    yield compare(grpo.data, grpo.data, at="1")
    yield search(grpo.data, "the", limit=3)
    yield sql(grpo.data, "select step, null as nothing, true as yes, [1, 2] as items from samples limit 5")
    yield scalars(grpo.data)
    yield noted.ask("errors")
    yield notes(grpo.data)
    yield notes(noted.data)
    yield report(grpo.data)
    yield add_entry(noted.data, "text", text="The run is *short*.", identifier="a1")
    yield add_entry(noted.data, "number", claim={"metric": "reward_mean", "steps": "1"})
    yield noted.ask("report")
    yield remove_entry(noted.data, "a1")
    yield events(noted.data)
    yield in_flight(flying.data)
    yield failures(grpo.data, 2)
    with rlpanel.open_run(UPSTREAM / "verifiers-0.4.0" / "judges", follow=False) as judged:
        yield judges(judged.data, against="reward")
        yield failures(judged.data)
    yield drift(drifting.data)
    yield corrections(drifting.data)
    yield taken_away(drifting.data, name="cispo")
    yield taken_away(grpo.data)
    yield experts(routed.data)
    yield corrections(grpo.data)
    yield update(grpo.data, 10)
    yield update(ppo.data, (9, 10))
    yield what_if(grpo.data, step=10)
    yield reward_parts(grpo.data, by="step")
    yield reward_pays(grpo.data)
    yield token_trend(ppo.data, ["/./"], steps=10)
    yield changed_tokens(ppo.data, steps=10, since=9, limit=5)
    yield trend(grpo.data)
    yield learned(grpo.data, limit=None)
    yield diverge(grpo.data, ppo.data)
    yield diverge(grpo.data, grpo.data, align="samples")
    yield settings_list(settled.data)
    yield column_list(grpo.data)


def types_in(value: Any) -> set[type]:
    if isinstance(value, dict):
        return {t for item in value.values() for t in types_in(item)}
    return {t for item in value for t in types_in(item)} if type(value) is list else {type(value)}


def test_every_table_keeps_to_its_schema_and_has_plain_values(
    grpo: Run, ppo: Run, noted: Run, drifting: Run, flying: Run, settled: Run, routed: Run
) -> None:
    seen = set()
    for table in all_tables(grpo, ppo, noted, drifting, flying, settled, routed):
        document = table.document()
        json.dumps(document, allow_nan=False)
        assert types_in(document) <= {str, int, float, bool, type(None)}, table.name
        jsonschema.Draft202012Validator(document_schema(table.spec)).validate(document)
        names = [column.name for column in table.columns]
        assert len(names) == len(set(names)), table.name
        of_row = jsonschema.Draft202012Validator(row_schema(table.spec))
        for row in table.rows:
            of_row.validate(row)
        if table.rows:
            seen.add(table.name)
    assert seen == set(QUESTIONS)


def test_every_schema_is_a_schema_and_refuses_other_rows() -> None:
    for spec in (question.spec for question in QUESTIONS.values()):
        schema = row_schema(spec)
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator.check_schema(document_schema(spec))
        if spec.columns:  # all columns of the table sql are those of the query
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate({"other": 1}, schema)


def test_an_unknown_table_is_an_error() -> None:
    with pytest.raises(SettingError, match="similar ones are steps"):
        question_of("step")


def test_the_steps_equal_those_of_the_run(grpo: Run) -> None:
    table, frame = steps(grpo.data, columns=["*"]), grpo.steps
    for name in frame.columns:
        mine = [row[name] for row in table.rows]
        theirs = [None if value != value else value for value in frame[name].tolist()]
        assert mine == theirs, name
    assert [row["step"] for row in steps(grpo.data, last=2).rows] == frame["step"].tolist()[-2:]
    assert steps(grpo.data, last=2).offset == len(frame) - 2
    assert [row["step"] for row in steps(grpo.data, step=7).rows] == [7]
    with pytest.raises(SettingError, match="reward_mean"):
        steps(grpo.data, columns=["reward_men"])


def test_samples_are_filtered_sorted_and_paged(grpo: Run) -> None:
    frame = grpo.samples(step=10)
    wanted = frame[frame["reward"] > frame["reward"].median()].sort_values("reward", ascending=False)
    median = float(frame["reward"].median())
    table = samples(grpo.data, step=10, filter=f"reward > {median!r}", sort="-reward", columns=["reward"])
    assert [row["reward"] for row in table.rows] == wanted["reward"].tolist()
    second = samples(grpo.data, step=10, filter=f"reward > {median!r}", sort="-reward", limit=2, offset=2)
    assert [row["uid"] for row in second.rows] == [row["uid"] for row in table.rows[2:4]]
    assert second.total == len(table.rows)
    assert second.more == len(table.rows) - 4
    with pytest.raises(FilterError):
        samples(grpo.data, filter="reward >")
    with pytest.raises(SettingError, match="nearest"):
        samples(grpo.data, step=999)


def test_texts_are_cut_and_say_so(grpo: Run) -> None:
    whole = samples(grpo.data, step=10, text=True, limit=1).rows[0]
    assert whole["cut"] == []
    cut = samples(grpo.data, step=10, text=True, limit=1, chars=5).rows[0]
    assert cut["response"] == whole["response"][:5]
    assert {"prompt", "response"} <= set(cut["cut"])
    part = sample(grpo.data, whole["uid"], chars=5, start=5).rows[0]
    assert part["response"] == whole["response"][5:10]
    assert part["chars"]["response"] == len(whole["response"])
    with pytest.raises(SettingError):
        TextLimit(-1)


def test_the_tokens_of_a_sample_are_those_of_the_log(ppo: Run) -> None:
    found = ppo.sample(ppo.snapshot.uid(5))
    table = sample_tokens(ppo.data, found.uid, metrics=["value"])
    assert [row["logged"] for row in table.rows] == found.response_tokens
    assert found.values is not None
    assert [row["value"] for row in table.rows] == found.values.tolist()
    assert [row["position"] for row in sample_tokens(ppo.data, found.uid, offset=3, limit=2).rows] == [3, 4]
    with pytest.raises(SettingError, match="no column 'kl'"):
        sample_tokens(ppo.data, found.uid, metrics=["kl"])
    with pytest.raises(SampleNotFound):
        sample(ppo.data, "nothing:1")


def test_groups_are_those_of_the_step(grpo: Run) -> None:
    table = groups(grpo.data, 10, sort="-reward_mean")
    frame = grpo.samples(step=10)
    by_group = frame.groupby("group")["reward"].mean().sort_values(ascending=False)
    means = [row["reward_mean"] for row in table.rows]
    assert means == pytest.approx(by_group.tolist())
    assert table.rows[0]["group"] == str(by_group.index[0])
    first = samples(grpo.data, step=10, filter=table.rows[0]["filter"])
    assert [row["uid"] for row in first.rows] == table.rows[0]["uids"]
    with pytest.raises(SettingError, match="cannot be sorted"):
        groups(grpo.data, 10, sort="prompt")


def test_the_most_variable_prompts_have_the_largest_spread_within_steps(tmp_path: Path) -> None:
    lines = [
        {"step": step, "prompt": prompt, "response": "r", "reward": reward}
        for step, prompt, reward in [
            (1, "steady", 1), (1, "steady", 1), (1, "some", 0), (1, "some", 1),
            (2, "some", 5), (2, "some", 5), (1, "most", 0), (1, "most", 4), (1, "once", 9),
        ]
    ]  # fmt: skip
    (tmp_path / "rollouts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        table = prompts(run.data, "variable", text=True)
        assert [row["prompt"] for row in table.rows] == ["most", "some"]
        assert table.rows[0]["spread"] == pytest.approx((8 / 1) ** 0.5)
        assert table.rows[1]["spread"] == pytest.approx((0.5 / 2) ** 0.5)
        assert table.rows[1]["best"] == table.rows[1]["last"] == 5
        assert [row["prompt"] for row in prompts(run.data, "variable", least_steps=2, text=True).rows] == [
            "some"
        ]
        assert prompts(run.data, text=False, least_steps=1).rows == []
        with pytest.raises(SettingError):
            prompts(run.data, "odd")  # type: ignore[arg-type]


def test_the_token_ranking_is_that_of_the_logged_arrays(ppo: Run) -> None:
    table = tokens(ppo.data, 10, metric="value_error", least=3)
    sums: dict[str, list[float]] = {}
    for row in ppo.snapshot.rows_of(10).tolist():
        one = ppo.sample(ppo.snapshot.uid(row))
        arrays = one.arrays()
        errors = abs(arrays["values"] - arrays["returns"])
        for token, error in zip(one.response_tokens or [], errors.tolist(), strict=True):
            if token != "<|pad|>":
                sums.setdefault(token, []).append(error)
    means = {token: sum(v) / len(v) for token, v in sums.items() if len(v) >= 3}
    assert {row["logged"]: pytest.approx(row["mean"]) for row in table.rows[:20]} == {
        token: means[token] for token in sorted(means, key=means.__getitem__, reverse=True)[:20]
    }
    with pytest.raises(SettingError, match="no metric"):
        tokens(ppo.data, 10, metric="reward")


def test_a_selection_is_a_step_steps_or_a_filter() -> None:
    assert selection_of("12") == 12
    assert selection_of("10..20") == slice(10, 20)
    assert selection_of("10..") == slice(10, None)
    assert selection_of("..20") == slice(None, 20)
    assert selection_of("reward < 0") == "reward < 0"
    for wrong in ("..", "1..x", "1:2:3", "..x"):
        with pytest.raises(SettingError, match=r"is no range of steps: write 12, 10\.\.20"):
            selection_of(wrong)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("30..20", "steps 30–20 are no range: the first one is after the last one"),
        ("70..80", "steps 70–80: no samples in run 'couplets-grpo', which has steps 1–60"),
        ("61", "step 61: no samples in run 'couplets-grpo', which has steps 1–60"),
    ],
)
def test_steps_without_samples_are_an_error_that_names_those_of_the_run(
    grpo: Run, steps: str, message: str
) -> None:
    with pytest.raises(SettingError, match=f"^{message}$"):
        contrast(grpo.data, selection_of(steps), 1)


def test_an_open_range_of_steps_is_named_by_its_ends(grpo: Run) -> None:
    about = contrast(grpo.data, selection_of("51.."), selection_of("..10"), texts=0).about
    assert (about["a"], about["b"]) == ("steps 51–60", "steps 1–10")


@pytest.mark.parametrize("text", ["", "  "])
def test_a_search_without_a_text_is_an_error(grpo: Run, text: str) -> None:
    with pytest.raises(SettingError, match="the text to search is empty"):
        search(grpo.data, text)


def test_a_search_shows_the_place(grpo: Run) -> None:
    table = search(grpo.data, "THE", limit=5, around=4)
    for row in table.rows:
        assert row["found"].lower() == "the"
        text = sample(grpo.data, row["uid"]).rows[0][row["field"]]
        assert text[row["at"] - len(row["before"]) :].startswith(row["before"] + row["found"] + row["after"])
        assert len(row["before"]) <= 4
    assert table.total > 5


def test_a_search_stops_when_it_has_found_enough_in_the_newest_steps(grpo: Run) -> None:
    most = search(grpo.data, "the", everything=True)
    few = search(grpo.data, "the", limit=5)
    assert most.about["searched"] == most.about["samples"] == few.about["samples"] == grpo.snapshot.samples
    assert 5 < few.total <= few.about["searched"] < most.about["searched"]
    assert few.rows == most.rows[:5]
    assert [row["step"] for row in most.rows] == sorted((row["step"] for row in most.rows), reverse=True)
    assert search(grpo.data, "the", limit=5, offset=5).rows == most.rows[5:10]
    # All samples are searched for a rare text, for a sort order, and if all rows are asked for.
    rare = search(grpo.data, most.rows[-1]["after"][:30], limit=5000)
    for table in (
        rare,
        search(grpo.data, "the", limit=5, sort="-reward"),
        search(grpo.data, "the", limit=None),
    ):
        assert table.about["searched"] == most.about["searched"]


def test_a_note_is_written_and_listed(tmp_path: Path) -> None:
    write_run(tmp_path / "run", steps=1)
    with rlpanel.open_run(tmp_path / "run", follow=False) as run:
        uid = run.snapshot.uid(0)
        annotate(run.data, uid, tag="odd")
        table = annotate(run.data, uid, note="see")
        assert [(row["tag"], row["note"]) for row in table.rows] == [("odd", "see")]
        assert notes(run.data).rows == table.rows
        assert samples(run.data, filter='tag == "odd"').rows[0]["note"] == "see"
        annotate(run.data, uid, tag="", note="")
        assert notes(run.data).rows == []
        with pytest.raises(SampleNotFound):
            annotate(run.data, "file:99", tag="x")


def test_runs_are_listed_with_what_is_known(tmp_path: Path) -> None:
    write_run(tmp_path / "a" / "b", steps=3)
    write_run(tmp_path / "c", steps=2)
    table = runs(tmp_path)
    assert {row["run"]: row["step"] for row in table.rows} == {"a/b": 3, "c": 2}
    assert len(table.rows[0]["trend"]) in (2, 3)
    assert runs(tmp_path, limit=1, offset=1).rows == table.rows[1:]
    with pytest.raises(RunNotFound):
        runs(tmp_path / "missing")


def test_a_sample_of_texts_and_ids_has_its_turns_ids_and_mask(tmp_path: Path) -> None:
    """The log of verl has one text for an episode, and that of prime-rl ids without texts."""
    turns = (
        "I look.<|im_end|>\n<|im_start|>user\n<tool_response>4</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n4.<|im_end|>"
    )
    line = {
        "step": 1,
        "prompt": "<|im_start|>user\n2 + 2?<|im_end|>\n<|im_start|>assistant\n",
        "response": turns,
        "response_token_ids": [7, 8, 9],
        "loss_mask": [1, 0, 1],
    }
    (tmp_path / "rollouts.jsonl").write_text(json.dumps(line) + "\n")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        uid = run.data.snapshot.uid(0)
        [row] = sample(run.data, uid).rows
        tokens = sample_tokens(run.data, uid).rows
    assert [(each["role"], each["content"]) for each in row["messages"]] == [
        ("user", "2 + 2?"), ("assistant", "I look."), ("tool", "4"), ("assistant", "4.")
    ]  # fmt: skip
    assert [(each["token_id"], each["loss_mask"]) for each in tokens] == [(7, 1), (8, 0), (9, 1)]
