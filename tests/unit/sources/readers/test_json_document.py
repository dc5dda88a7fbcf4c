"""JSON documents: one indented object per file, also while it is written, replaced or wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.errors import RunNotFound, SourceChanged
from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.text_predicate import TextPredicate
from rlpanel.store.query.text_scan import scan

NAME = "episode_hash0a1b2c3d_id7_0.json"


def episode(*rewards: float, step: int = 1, text: str = "4 “四” 🙂") -> bytes:
    """A document of rLLM's format with a trajectory for each reward."""
    asked = {"role": "user", "content": "2 + 2?"}
    document = {
        "training_step": step,
        "task": {},
        "task_hash": "0a1b2c3d",
        "is_correct": True,
        "termination_reason": "env_done",
        "trajectories": [
            {
                "name": "solver",
                "reward": reward,
                "steps": [{"chat_completions": [asked, {"role": "assistant", "content": text}]}],
            }
            for reward in rewards
        ],
    }
    return json.dumps(document, indent=2).encode() + b"\n"


def look(index: RunIndex) -> list[tuple[int, float]]:
    """Step and reward of the living rows after another look at the folder."""
    index.rescan()
    while index.read():
        pass
    frame = index.view.frame(index.snapshot.alive_rows)
    return [] if not len(frame) else list(zip(frame["step"].tolist(), frame["reward"].tolist(), strict=True))


def test_a_document_is_one_line_whose_samples_are_read_back(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"\n " + episode(1.0, 0.5))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        frame = run.samples()
        first, second = (run.sample(uid) for uid in frame["uid"])
    assert (first.line, first.offset, second.line, second.reward) == (1, 2, 1, 0.5)
    assert (first.prompt, first.response) == ("[user] 2 + 2?", "4 “四” 🙂")


def test_the_text_search_finds_the_escaped_texts_of_documents(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"\n " + episode(1.0, 0.5))
    (tmp_path / NAME.replace("7", "8")).write_bytes(episode(2.0, text="zebra"))
    index = RunIndex(tmp_path, "run")
    look(index)
    test = TextPredicate("response", "contains", "“四”")
    batches = list(scan(index, index.snapshot, index.snapshot.alive_rows, [test]))
    assert [batch.texts[test].tolist() for batch in batches] == [[True, True, False]]


@pytest.mark.parametrize("content", [episode(1.0, 2.0)[:-9], b"", b"  \n", "{é".encode()[:-1]])
def test_an_incomplete_document_is_reported_and_read_when_it_is_whole(tmp_path: Path, content: bytes) -> None:
    index = RunIndex(tmp_path, "run")
    (tmp_path / NAME).write_bytes(content)
    assert look(index) == []
    (problem,) = index.snapshot.problems
    assert problem.startswith(f"{NAME}: is incomplete or damaged")
    look(index)
    assert index.snapshot.problems == (problem,), "a second look says so, too"
    (tmp_path / NAME).write_bytes(episode(1.0, 2.0))
    assert (look(index), index.snapshot.problems) == ([(1, 1.0), (1, 2.0)], ())


def test_a_rewritten_document_replaces_its_rows_and_keeps_them_until_it_is_whole(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(episode(1.0, 2.0))
    (tmp_path / NAME.replace("7", "8")).write_bytes(episode(7.0, step=2))
    index = RunIndex(tmp_path, "run")
    before = look(index)
    uid = index.snapshot.uid(0)
    (tmp_path / NAME).write_bytes(episode(3.0)[:200])
    half = look(index)
    with pytest.raises(SourceChanged):
        index.reader(NAME).fetch(index.snapshot.locator(index.snapshot.row(uid)))
    (tmp_path / NAME).write_bytes(episode(3.0))
    assert (before, half) == ([(1, 1.0), (1, 2.0), (2, 7.0)],) * 2
    assert sorted(look(index)) == [(1, 3.0), (2, 7.0)]


def test_a_document_that_went_and_came_again_is_read_again(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(episode(1.0))
    index = RunIndex(tmp_path, "run")
    look(index)
    (tmp_path / NAME).unlink()
    gone = look(index)
    (tmp_path / NAME).write_bytes(episode(1.0))
    assert (gone, look(index)) == ([], [(1, 1.0)])


def test_a_document_larger_than_may_be_held_says_so_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(episode(1.0, text="x" * 5000))
    (tmp_path / NAME.replace("7", "8")).write_bytes(episode(2.0))
    index = RunIndex(tmp_path, "run", Reading(line_bytes=5000))
    assert look(index) == [(1, 2.0)]
    (problem,) = index.snapshot.problems
    assert "has 5,479 bytes; the limit is 5,000" in problem


def test_a_whole_document_that_is_no_sample_is_a_bad_line_with_its_reason(tmp_path: Path) -> None:
    wrong: dict[str, Any] = json.loads(episode(1.0)) | {"trajectories": "none"}
    (tmp_path / NAME).write_text(json.dumps(wrong, indent=2))
    (tmp_path / NAME.replace("7", "8")).write_bytes(episode(2.0))
    index = RunIndex(tmp_path, "run")
    assert look(index) == [(1, 2.0)]
    (bad,) = index.snapshot.bad_lines
    assert (bad.file, bad.line, bad.reason) == (NAME, 1, "'trajectories' is not a list of objects")


def test_a_document_may_have_more_keys_than_a_line_if_they_are_its_samples(tmp_path: Path) -> None:
    samples = {
        f"q{at}": {"question": f"q {at}?", "response": "text", "score": at % 2} for at in range(10_050)
    }
    (tmp_path / "results.json").write_text(json.dumps(samples))
    with rlpanel.open_run(tmp_path, follow=False, jobs=0) as run:
        found = run.samples()
    assert len(found) == 10_050
    assert found["reward"].sum() == 5_025


def test_a_document_with_too_many_keys_says_so_and_is_not_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "generations.json").write_text(json.dumps({f"q{at}": "a text" for at in range(66_000)}))
    with pytest.raises(RunNotFound) as raised:
        rlpanel.open_run(tmp_path, follow=False, jobs=0)
    assert "is too large: the document has 66,000 keys; the limit is 65,535" in str(raised.value)
    assert "damaged" not in str(raised.value)
