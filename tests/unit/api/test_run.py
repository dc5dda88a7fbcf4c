"""A run from Python: open a folder, get tables and samples."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import rlpanel
from rlpanel.api.run import Run
from rlpanel.errors import RLPanelError, RunNotFound, SampleNotFound, SourceChanged
from rlpanel.runtime import default_runtime
from rlpanel.store.index.reader import Reader
from tests.factories import append, line, sample, write_run
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def _fresh_reader() -> Iterator[None]:
    """No test leaves the process's reader running."""
    yield
    default_runtime().close()


def read(folder: Path) -> rlpanel.Run:
    return rlpanel.open_run(folder, follow=False)


def test_steps_and_samples_are_tables(tmp_path: Path) -> None:
    run = read(write_run(tmp_path, steps=3, ranks=2, samples=8))
    assert (len(run.steps), len(run.samples()), len(run.samples(step=2))) == (3, 48, 16)


def test_texts_come_when_asked_for(tmp_path: Path) -> None:
    run = read(write_run(tmp_path, steps=1, samples=3))
    expected = [sample(1, index=index)["response"] for index in range(3)]
    assert (run.samples(text=True)["response"].tolist(), "response" in run.samples()) == (expected, False)


def test_a_sample_comes_back_whole(tmp_path: Path) -> None:
    append(tmp_path / "rollout_data_rank_3.jsonl", line(7, rank=3, essay="e" * 200))
    run, logged = read(tmp_path), sample(7, rank=3)
    found = run.sample(run.samples().uid[0])
    assert (found.step, found.rank, found.line, found.offset) == (7, 3, 1, 0)
    assert (found.prompt, found.ground_truth, found.group) == (
        logged["prompt"],
        logged["ground_truth"],
        "3-0",
    )
    assert (found.response_tokens, found.reward) == (logged["response_tokens"], logged["reward"])
    assert found.logprobs is not None
    assert found.logprobs.tolist() == logged["logprobs"]
    assert (found.returns, found.extra) == (None, {"essay": "e" * 200})


def test_a_sample_carries_its_row(tmp_path: Path) -> None:
    run = read(write_run(tmp_path, steps=1, samples=1))
    row, found = run.samples().iloc[0], run.sample(run.samples().uid[0])
    assert found.columns["kl_k1_sum"] == row["kl_k1_sum"]


def test_bad_lines_are_a_table(tmp_path: Path) -> None:
    append(tmp_path / "rollout_data_rank_0.jsonl", line(1), b"{torn\n", line(2))
    errors = read(tmp_path).errors
    assert errors.iloc[0].tolist()[:3] == ["rollout_data_rank_0.jsonl", 2, len(line(1))]


def test_findings_are_a_table_of_the_newest_snapshot(tmp_path: Path) -> None:
    found = read(write_run(tmp_path, steps=8, samples=32, tokens=False, truncated=1)).findings
    row = found[found.rule == "truncated"].iloc[0]
    assert (row.severity, row.onset, row["last"], row.ongoing) == ("alarm", 1, 8, True)
    assert row.finding.evidence


def test_findings_of_a_split_are_those_of_its_samples(tmp_path: Path) -> None:
    shape = {"steps": 8, "samples": 32, "tokens": False}
    write_run(tmp_path, **shape)
    write_run(tmp_path, file_name="eval.jsonl", split="eval", truncated=1, **shape)
    run = read(tmp_path)
    has_rule = ["truncated" in each.findings.rule.tolist() for each in (run, run.split("eval"))]
    assert has_rule == [False, True]


def test_no_bad_lines_are_an_empty_table(tmp_path: Path) -> None:
    assert list(read(write_run(tmp_path)).errors.columns) == ["file", "line", "offset", "reason"]


def test_an_unknown_uid_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(SampleNotFound, match="holds no sample 'x:1'"):
        read(write_run(tmp_path)).sample("x:1")


def test_a_sample_whose_bytes_changed_is_not_passed_off_as_the_old_one(tmp_path: Path) -> None:
    run = read(write_run(tmp_path, steps=1))
    uid = run.samples().uid[0]
    path = tmp_path / "rollout_data_rank_0.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"reward": ', b'"reward":9'))
    with pytest.raises(SourceChanged):
        run.sample(uid)


def test_a_folder_above_the_only_run_will_do(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "only")
    assert read(tmp_path).name == "only"


def test_a_folder_of_several_runs_says_which(tmp_path: Path) -> None:
    for name in "abcdefg":
        write_run(tmp_path / name)
    with pytest.raises(RunNotFound, match=r"holds 7 runs \(.*…\); open one of them"):
        read(tmp_path)


def test_a_folder_without_rollouts_says_what_it_saw(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").touch()
    with pytest.raises(RunNotFound, match=r"holds no rollouts\. 1 file .*\nreadme.txt: neither"):
        read(tmp_path)


def test_a_file_is_no_folder_but_its_folder_is_named(tmp_path: Path) -> None:
    write_run(tmp_path)
    with pytest.raises(RunNotFound, match=r"its folder .* may be the run"):
        read(tmp_path / "rollout_data_rank_0.jsonl")


def test_runs_beside_a_folder_that_does_not_exist_are_named(tmp_path: Path) -> None:
    for name in ("first", "grpo_2", "third"):
        write_run(tmp_path / name, steps=1, samples=1)
    with pytest.raises(RunNotFound, match=r"has the runs grpo_2, .*first"):
        rlpanel.open_run(tmp_path / "grpo_1")


def test_a_run_that_is_followed_sees_what_comes(tmp_path: Path) -> None:
    with rlpanel.open_run(write_run(tmp_path, steps=2)) as run:
        append(tmp_path / "rollout_data_rank_0.jsonl", line(3))
        wait_until(lambda: run.steps.step.tolist() == [1, 2, 3], message="step 3")


def test_a_run_that_is_not_followed_stays_as_it_was(tmp_path: Path) -> None:
    run = read(write_run(tmp_path, steps=2))
    append(tmp_path / "rollout_data_rank_0.jsonl", line(3))
    assert run.steps.step.tolist() == [1, 2]


def test_waiting_for_a_reader_that_was_stopped_is_refused(tmp_path: Path) -> None:
    service = Reader()
    service.stop()
    run = Run(service.open(write_run(tmp_path)), service)
    with pytest.raises(RLPanelError, match="the reader was stopped"):
        run.wait()


def test_a_run_says_what_it_is(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "couplets", steps=1, samples=2)
    append(folder / "rollout_data_rank_0.jsonl", b"{torn\n")
    assert repr(read(folder)) == "<Run 'couplets': 2 samples, 1 steps, 1 bad lines>"


def test_stats_add_up(tmp_path: Path) -> None:
    folder = write_run(tmp_path, steps=3, ranks=2, samples=4)
    stats = read(folder).stats()
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert (stats.rows, stats.steps, stats.ranks, stats.files, stats.bytes) == (24, 3, 2, 2, size)


def test_the_recorded_run_agrees_with_pandas(ppo_run: Path) -> None:
    rows = [
        json.loads(text)
        for text in (ppo_run / "rollout_data_rank_0.jsonl").read_text("utf-8").split("\n")[:-1]
    ]
    means: dict[int, list[float]] = {}
    for row in rows:
        means.setdefault(row["step"], []).append(row["reward"])
    np.testing.assert_allclose(
        read(ppo_run).steps["reward_mean"], [np.mean(means[step]) for step in sorted(means)]
    )


#: ``truncated``, finish reason, and whether the response ended.
ENDINGS = [
    (None, "length", 0.0),
    (None, "stop", 1.0),
    (1, "stop", 0.0),
    (0, "length", 1.0),
    (None, None, np.nan),
]


@pytest.mark.parametrize("same_keys", [True, False], ids=["as columns", "line by line"])
def test_the_finish_reason_says_what_a_missing_truncated_does_not(tmp_path: Path, same_keys: bool) -> None:
    lines = [
        line(
            1,
            index=index,
            truncated=truncated,
            finish_reason=reason,
            **({} if same_keys else {f"k{index}": 1}),
        )
        for index, (truncated, reason, _) in enumerate(ENDINGS)
    ]
    append(tmp_path / "rollout_data_rank_0.jsonl", *lines)
    run = read(tmp_path)
    np.testing.assert_array_equal(run.samples()["ended"], [ended for *_, ended in ENDINGS])
    assert run.steps["truncated_share"].tolist() == [0.5]


def test_statistics_of_a_column_that_was_not_logged_name_those_that_were(tmp_path: Path) -> None:
    run = read(write_run(tmp_path, steps=2, tokens=False, drop=("reward",), rewards={"acc": 0.5}))
    for ask in (run.quantiles, run.histogram):
        with pytest.raises(
            RLPanelError, match=r"has no number column 'reward'; similar ones are .*rewards/acc"
        ):
            ask("reward")
    assert run.quantiles("rewards/acc")[0.5].tolist() == [0.5, 0.5]


def test_an_answer_is_a_table_in_a_cell_and_texts_of_the_log_are_escaped(tmp_path: Path) -> None:
    append(tmp_path / "rollout_data_rank_0.jsonl", line(1, lang="<img src=x>"), line(1, index=1, lang="b"))
    answer = read(tmp_path).ask("reward-parts")  # as the command is called
    assert repr(answer) == repr(read(tmp_path).ask("reward_parts"))
    html = read(tmp_path).ask("samples", columns=["lang"])._repr_html_()
    assert "<table" in html
    assert "<img" not in html
    assert "&lt;img" in html


def test_a_frame_has_the_units_of_its_columns(grpo: Run) -> None:
    assert grpo.steps.attrs["units"]["kl_k3_mean"] == "nats"
    assert "rank" not in grpo.samples(1).attrs["units"]
