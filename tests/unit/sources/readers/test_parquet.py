"""TRL's logged completions: real files of a GRPO run, also while TRL writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rlpanel
from rlpanel.errors import RunNotFound, SourceChanged
from rlpanel.store.index.run_index import RunIndex

DATA = Path(__file__).parents[3] / "data"
REAL = DATA / "trl"
NAME = "completions_00001.parquet"
#: TRL's scalars of these two steps.
LOGGED = {
    "reward_mean": [0.8828125596046448, 0.5812499523162842],
    "reward_std": [0.4825707674026489, 0.40271899104118347],
    "rewards/rhyme_reward_mean": [0.25, 0.109375],
    "rewards/rhyme_reward_std": [0.4364358186721802, 0.3145764470100403],
    "rewards/zh_only_bonus_mean": [0.196428582072258, 0.1937500238418579],
}


def table(*rewards: float | None, step: int = 1, **columns: list[Any]) -> pa.Table:
    """A file's table as TRL makes it, with one reward function."""
    count = len(rewards)
    scores = {"format": pa.array(rewards, pa.float64())}
    return pa.table(
        {"step": [step] * count, "prompt": ["p"] * count, "completion": [f"c{at}" for at in range(count)]}
        | scores
        | columns
        | {"advantage": [0.5] * count}
    )


def write(path: Path, content: pa.Table) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(content, path)
    return path.read_bytes()


def look(index: RunIndex) -> list[tuple[int, float]]:
    """Step and reward of the living rows after another look at the folder."""
    index.rescan()
    while index.read():
        pass
    frame = index.view.frame(index.snapshot.alive_rows)
    return [] if not len(frame) else list(zip(frame["step"].tolist(), frame["reward"].tolist(), strict=True))


def test_rows_of_a_real_run_are_what_trl_logged() -> None:
    with rlpanel.open_run(REAL, follow=False) as run:
        steps, errors = run.steps, run.errors
    assert {name: steps[name].tolist() for name in LOGGED} == {
        name: pytest.approx(values, rel=2e-7) for name, values in LOGGED.items()
    }
    assert (steps["samples"].tolist(), len(errors)) == ([64, 64], 0)


def test_a_row_is_read_back_with_its_texts() -> None:
    with rlpanel.open_run(REAL, follow=False) as run:
        sample = run.sample(f"{NAME}:3")
    assert (sample.prompt, sample.response, sample.step, sample.line) == (
        "[user] 请写出“杜鹃映旧乡”的下一句，要求押韵。", "幽径映空船。", 1, 4,
    )  # fmt: skip
    assert (sample.reward, sample.advantage) == pytest.approx((0.7, -0.72442865), rel=1e-6)
    assert sample.columns["char_len"] == 6  # a number that a reward function logged is no reward


def test_a_reward_is_the_sum_of_the_scores_there_are(tmp_path: Path) -> None:
    accuracy = pa.array([None, 2.0, None], pa.float64())
    write(tmp_path / NAME, table(1.0, 0.5, None, accuracy=accuracy, golden_answer=["4", None, "5"]))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        frame = run.samples(text=True)
    assert frame["reward"].fillna(-1).tolist() == [1.0, 2.5, -1.0]
    assert frame["rewards/accuracy"].fillna(-1).tolist() == [-1.0, 2.0, -1.0]
    assert frame["ground_truth"].fillna("").tolist() == ["4", "", "5"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rlpanel.toml", "[reward_weights]\nformat = 0.5\n"),
        ("run.json", '{"reward_weights": {"format": 0.5}}'),
    ],
)
def test_scores_are_weighted_as_the_run_says(tmp_path: Path, name: str, text: str) -> None:
    accuracy = pa.array([None, 2.0], pa.float64())
    write(tmp_path / "completions" / NAME, table(1.0, 3.0, accuracy=accuracy))
    index = RunIndex(tmp_path / "completions", "run", root=tmp_path)
    before = look(index)
    (tmp_path / name).write_text(text)
    assert (before, look(index)) == ([(1, 1.0), (1, 5.0)], [(1, 0.5), (1, 3.5)])


def test_a_conversation_of_several_turns_is_kept_whole(tmp_path: Path) -> None:
    turns = [{"role": "assistant", "content": "look it up"}, {"role": "tool", "content": "42"}]
    made = table(1.0).set_column(2, "completion", pa.array([turns]))
    write(tmp_path / NAME, made)
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.samples(text=True)["response"].tolist() == ["[assistant] look it up\n[tool] 42"]


def test_a_file_seen_half_written_waits_and_is_then_whole(tmp_path: Path) -> None:
    content = write(tmp_path / NAME, table(1.0, 2.0))
    index = RunIndex(tmp_path, "run")
    (tmp_path / NAME).write_bytes(content[:-40])
    assert look(index) == []
    (problem,) = index.snapshot.problems
    assert problem.startswith(f"{NAME}: is incomplete or damaged")
    look(index)
    assert index.snapshot.problems == (problem,), "a second look says so, too"
    (tmp_path / NAME).write_bytes(content)
    assert (look(index), index.snapshot.problems) == ([(1, 1.0), (1, 2.0)], ())


def test_a_rewritten_file_replaces_its_rows_and_keeps_them_until_it_is_whole(tmp_path: Path) -> None:
    write(tmp_path / NAME, table(1.0, 2.0))
    write(tmp_path / "completions_00002.parquet", table(7.0, step=2))
    index = RunIndex(tmp_path, "run")
    before = look(index)
    uid = index.snapshot.uid(0)
    content = write(tmp_path / NAME, table(3.0))
    (tmp_path / NAME).write_bytes(content[:200])
    half = look(index)
    with pytest.raises(SourceChanged):
        index.reader(NAME).fetch(index.snapshot.locator(index.snapshot.row(uid)))
    (tmp_path / NAME).write_bytes(content)
    assert (before, half) == ([(1, 1.0), (1, 2.0), (2, 7.0)],) * 2
    assert sorted(look(index)) == [(1, 3.0), (2, 7.0)]


def test_a_file_that_went_and_came_again_is_read_again(tmp_path: Path) -> None:
    content = write(tmp_path / NAME, table(1.0))
    index = RunIndex(tmp_path, "run")
    look(index)
    (tmp_path / NAME).unlink()
    gone = look(index)
    (tmp_path / NAME).write_bytes(content)
    assert (gone, look(index)) == ([], [(1, 1.0)])


def test_equal_completions_of_a_step_are_samples_of_their_own(tmp_path: Path) -> None:
    made = table(1.0, 1.0, 1.0).set_column(2, "completion", pa.array(["same"] * 3))
    write(tmp_path / NAME, made)
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert (run.stats().rows, run.samples()["uid"].nunique()) == (3, 3)


def test_a_data_set_beside_the_run_is_none(tmp_path: Path) -> None:
    write(tmp_path / "train.parquet", pa.table({"prompt": ["p"], "answer": ["a"]}))
    with pytest.raises(RunNotFound):
        rlpanel.open_run(tmp_path, follow=False)


def test_a_file_larger_than_may_be_held_says_so(tmp_path: Path) -> None:
    made = table(*[1.0] * 4000, essay=["x" * 100] * 4000)  # small on disk, large when unpacked
    write(tmp_path / NAME, made)
    index = RunIndex(tmp_path, "run", rlpanel.settings.Reading(line_bytes=100_000))
    assert look(index) == []
    assert "has more than 100,000 bytes when unpacked" in index.snapshot.problems[0]


def test_a_damaged_byte_in_a_text_costs_the_rows_with_that_text_alone() -> None:
    with rlpanel.open_run(DATA / "damaged", follow=False) as run:
        bad, samples, texts = run.errors, run.snapshot.samples, run.samples(text=True)
    assert (samples, len(texts), bad["line"].tolist()) == (6, 6, [6, 7])
    assert all(bad["reason"].str.startswith("the value of 'completion' cannot be read: UnicodeDecodeError"))


def test_a_file_without_a_row_that_can_be_read_is_named(tmp_path: Path) -> None:
    write(tmp_path / NAME, table(1.0))
    lone = pa.array([b"\xff"], pa.binary()).view(pa.string())
    write(tmp_path / "other.parquet", pa.table({"step": [1], "prompt": lone}))
    index = RunIndex(tmp_path, "run")
    look(index)
    assert [item.file for item in index.snapshot.unread] == ["other.parquet"]
    assert "has no row that can be read" in index.snapshot.unread[0].reason
