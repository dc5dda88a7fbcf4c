"""prime-rl's stream of episodes since September 2026: what was trained on is written later, beside it.

The lines have the keys that prime-rl's file monitor, its orchestrator and its trainer write.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.schema import Sample
from rlpanel.store.index.run_index import RunIndex
from rlpanel.zstd import zstd
from tests.factories import append

TRACES = Path("monitors") / "file" / "traces"


def put(path: Path, *documents: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    append(path, b"".join(json.dumps(document).encode() + b"\n" for document in documents))
    return path


def node(parent: int | None, text: str, own: int) -> dict[str, Any]:
    """A message with one token of a template, and ``own`` that the policy sampled."""
    message = {"role": "assistant" if own else "user", "content": text}
    return {
        "parent": parent, "sampled": own > 0, "message": message,
        "token_ids": [9, *range(own)], "mask": [False] + [True] * own, "logprobs": [-0.5] * own,
    }  # fmt: skip


def episode(name: str, reward: float, kind: str = "train", **fields: Any) -> dict[str, Any]:
    """An episode that was dispatched at step 4 and arrived at step 5, with two branches if it is "forked"."""
    nodes = [node(None, f"ask {name}", 0), node(0, "plan", 2), node(1, "one", 1)]
    return {
        "id": f"e-{name}", "task": {}, "group": {"id": "g"}, "errors": [], "ok": True,
        "run": {"type": "train", "work": {"type": kind, "step": 4, "policy": {"start": 3, "end": 3}}},
        "traces": [{
            "id": name, "nodes": [*nodes, node(1, "two", 1)] if name == "forked" else nodes, "ok": True,
            "rewards": {"right": {"score": reward, "weight": 1.0}}, "stop_condition": "done",
            "info": {"kind": kind, "arrival": {"step": 5, "time": 1.0}},
        }],
    } | fields  # fmt: skip


def row(name: str, chunk: int = 0) -> dict[str, Any]:
    return {"trace_ids": [name], "chunk": chunk, "offset": 0, "id": f"e-{name}"}


def shipped(name: str, step: int, advantage: float) -> dict[str, Any]:
    """The orchestrator's update of a trace that is trained on; the plain branch has five tokens."""
    info = {"effective": True, "ship": {"step": step, "time": 2.0}, "advantage": advantage}
    streams = [0.0, 0.0, *[advantage] * 2, 0.0, advantage]
    return {"version": 1, "trace_id": name, "info": info, "branches": [{"index": 0, "advantages": streams}]}


def trained(name: str, index: int = 0) -> dict[str, Any]:
    """The trainer's update: null where a token took no part in the loss."""
    plan = [None, None] if index else [-0.25, -0.25]
    logprobs = [None, None, *plan, None, -0.75]
    entropies = [None if value is None else 0.5 for value in logprobs]
    masked = [None, None, True, None, None, False]
    branch = {"index": index, "trainer_logprobs": logprobs, "entropies": entropies, "is_masked": masked}
    return {"version": 1, "trace_id": name, "info": {}, "branches": [branch]}


def look(index: RunIndex) -> dict[str, list[tuple[int, float]]]:
    """Step and reward of the rows of the default split, after another look at the folder."""
    index.rescan()
    while index.read():
        pass
    frame = index.view.frame(index.snapshot.alive_rows)
    found: dict[str, list[tuple[int, float]]] = {}
    for split, step, reward in zip(frame["split"], frame["step"], frame["reward"], strict=True):
        found.setdefault(split, []).append((step, reward))
    return found


def samples(folder: Path, split: str = "train") -> list[Sample]:
    with rlpanel.open_run(folder, follow=False) as run:
        assert not len(run.errors)
        part = run.split(split)
        return [part.sample(uid) for uid in part.samples()["uid"]]


@pytest.mark.case("prime-rl", "masked")
def test_a_trace_enters_training_with_the_step_of_its_batch_once_it_is_shipped(tmp_path: Path) -> None:
    stream, notes = tmp_path / TRACES / "stream" / "00000.jsonl", tmp_path / TRACES / "annotations"
    put(tmp_path / TRACES / "stream.index.jsonl", row("kept"), row("dropped"), row("asked"))
    put(stream, episode("kept", 1.0), episode("dropped", 0.0), episode("asked", 0.5, "eval"))
    index = RunIndex(tmp_path, "run")
    arrived = look(index)
    put(notes / "orch" / "00000.jsonl", shipped("kept", 6, 0.5))
    put(notes / "orch.index.jsonl", {"trace_id": "kept", "chunk": 0, "offset": 0, "info": {}})
    ready = look(index)
    before = "logprob_mean" in index.snapshot.numbers
    put(notes / "trainer" / "00000.jsonl", trained("kept"))
    look(index)
    assert (arrived, ready) == ({"discarded": [(5, 1.0), (5, 0.0)]}, {"train": [(6, 1.0)]})
    assert (before, "logprob_mean" in index.snapshot.numbers) == (False, True)
    (sample,) = samples(tmp_path)
    assert {name: array.tolist() for name, array in sample.arrays().items()} == {
        "response_token_ids": [0, 1, 0], "rollout_logprobs": [-0.5] * 3, "advantages": [0.5] * 3,
        "logprobs": [-0.25, -0.25, -0.75], "entropy": [0.5] * 3,
    }  # fmt: skip
    assert (sample.advantage, sample.columns["dispatch_step"], sample.columns["lag"]) == (0.5, 4.0, 2.0)
    assert sample.columns["is_masked"] == 0.5, "of the tokens whose policy gradient was decided"
    assert [each.step for each in samples(tmp_path, "eval")] == [4], "evaluations keep the step of dispatch"
    (left,) = samples(tmp_path, "discarded")
    assert (left.status, left.status_reason) == (
        "discarded", "not in a batch that was trained on, until now",
    )  # fmt: skip


def test_a_shared_message_has_the_trainers_arrays_in_both_branches(tmp_path: Path) -> None:
    put(tmp_path / TRACES / "stream" / "00000.jsonl", episode("forked", 1.0))
    notes = put(tmp_path / TRACES / "annotations" / "orch" / "00000.jsonl", shipped("forked", 6, 0.5))
    put(notes.parent.parent / "trainer" / "00000.jsonl", trained("forked"), trained("forked", 1))
    first, second = samples(tmp_path)
    assert first.loss_mask is None
    assert second.loss_mask is not None
    assert second.logprobs is not None
    assert (second.loss_mask.tolist(), second.logprobs.tolist()) == ([0, 0, 1], [-0.25, -0.25, -0.75])


def test_sealed_files_are_read_as_plain_ones(tmp_path: Path) -> None:
    """prime-rl compresses a full file beside it and removes the plain one; a table of its frames ends it."""
    folder = tmp_path / TRACES
    names = [f"t{number}" for number in range(40)]
    put(folder / "stream.index.jsonl", *map(row, names))
    stream = put(
        folder / "stream" / "00000.jsonl", *(episode(name, at / 40) for at, name in enumerate(names))
    )
    notes = put(folder / "annotations" / "orch" / "00000.jsonl", *(shipped(name, 6, 0.5) for name in names))
    updates = put(notes.parent.parent / "trainer" / "00000.jsonl", *map(trained, names))
    index = RunIndex(tmp_path, "run")
    plain = look(index)
    means = index.snapshot.number("logprob_mean")[index.snapshot.alive_rows].tolist()
    for path in (stream, notes, updates):
        content = path.read_bytes()
        frames = [content[at : at + 3000] for at in range(0, len(content), 3000)]
        table = b"\x5e\x2a\x4d\x18" + (8).to_bytes(4, "little") + bytes(8)
        Path(f"{path}.zst").write_bytes(b"".join(map(zstd.compress, frames)) + table)
        path.unlink()
    assert plain == {"train": [(6, at / 40) for at in range(40)]}
    assert look(index) == plain
    assert index.snapshot.number("logprob_mean")[index.snapshot.alive_rows].tolist() == means
    assert look(RunIndex(tmp_path, "again")) == plain


def test_an_update_is_read_again_only_with_the_file_that_it_concerns(tmp_path: Path) -> None:
    folder = tmp_path / TRACES
    put(folder / "stream.index.jsonl", row("old", 0), row("new", 1))
    put(folder / "stream" / "00000.jsonl", episode("old", 1.0))
    put(folder / "stream" / "00001.jsonl", episode("new", 0.0))
    notes = put(folder / "annotations" / "orch" / "00000.jsonl", shipped("old", 5, 0.5))
    index = RunIndex(tmp_path, "run")
    look(index)
    read = index.bytes_read
    put(notes, shipped("new", 6, -0.5))
    found = look(index)
    size = (folder / "stream" / "00001.jsonl").stat().st_size
    assert (found, index.bytes_read - read) == ({"train": [(5, 1.0), (6, 0.0)]}, size)


@pytest.mark.parametrize("single", [True, False])
def test_simple_lines_say_step_subset_and_advantage_themselves(tmp_path: Path, single: bool) -> None:
    folder = tmp_path / "traces"
    stream = folder / ("stream.jsonl" if single else "stream/00000.jsonl")
    notes = folder / "annotations" / ("orchestrator.jsonl" if single else "orchestrator/00000.jsonl")
    failed = episode("none", 0.0, traces=[], ok=False, errors=[{"type": "SandboxError", "message": "died"}])
    put(stream, episode("kept", 1.0), episode("dropped", 0.0), failed)
    put(
        notes,
        {"trace_id": "kept", "step": 5, "subset": "effective", "advantage": 0.5},
        {"trace_id": "dropped", "step": 5, "subset": "all", "advantage": 0.0},
    )
    ((kept,), left) = samples(tmp_path), samples(tmp_path, "discarded")
    assert (kept.step, kept.reward, kept.advantage) == (5, 1.0, 0.5)
    assert [(each.step, each.status) for each in left] == [(5, "discarded"), (4, "environment_error")]


def test_a_stream_without_annotations_is_not_taken_for_training(tmp_path: Path) -> None:
    stream = put(tmp_path / TRACES / "stream" / "00000.jsonl", episode("kept", 1.0))
    put(tmp_path / TRACES / "annotations" / "orch" / "00000.jsonl", shipped("kept", 6, 0.5))
    (inside,) = samples(stream.parent, "discarded")
    assert inside.status_reason is not None
    assert inside.status_reason.startswith("no folder 'annotations' beside the stream")
    assert [info.name for info in rlpanel.discover(tmp_path)] == ["."]


def test_a_broken_update_costs_that_update_only(tmp_path: Path) -> None:
    put(tmp_path / TRACES / "stream" / "00000.jsonl", episode("kept", 1.0), episode("other", 0.0))
    notes = tmp_path / TRACES / "annotations" / "orch" / "00000.jsonl"
    put(notes, shipped("kept", 6, 0.5))
    append(notes, b'{"trace_id": "other", "info": \n[]\n{"trace_id": 7}\n')
    put(notes, shipped("other", 7, -0.5))
    put(notes, {"trace_id": "kept", "info": {"arrival": 3}, "branches": [7, {"index": 0, "entropies": 5}]})
    append(notes, b'{"trace_id": "kept", "info": {"advantage"')
    assert [(each.step, each.advantage) for each in samples(tmp_path)] == [(6, 0.5), (7, -0.5)]


def test_a_trace_whose_messages_go_in_a_circle_is_a_bad_line(tmp_path: Path) -> None:
    circle = episode("circle", 1.0)
    for at, parent in enumerate((1, 0, 1)):
        circle["traces"][0]["nodes"][at]["parent"] = parent
    put(tmp_path / TRACES / "stream" / "00000.jsonl", episode("kept", 1.0), circle)
    names = "kept", "circle"
    put(tmp_path / TRACES / "annotations" / "orch.jsonl", *(shipped(name, 6, 0.5) for name in names))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.errors["reason"].tolist() == ["a message's 'parent' is not an earlier message"]
        assert len(run.samples()) == 1


def test_annotations_behind_a_link_are_not_read(tmp_path: Path) -> None:
    put(tmp_path / "run" / TRACES / "stream" / "00000.jsonl", episode("kept", 1.0))
    put(tmp_path / "outside" / "orch" / "00000.jsonl", shipped("kept", 6, 0.5))
    (tmp_path / "run" / TRACES / "annotations").symlink_to(tmp_path / "outside")
    assert [each.step for each in samples(tmp_path / "run", "discarded")] == [5]


def test_metrics_beside_the_traces_are_the_trainers_scalars(tmp_path: Path) -> None:
    put(tmp_path / TRACES / "stream" / "00000.jsonl", episode("kept", 1.0))
    put(
        tmp_path / "monitors" / "file" / "metrics.jsonl",
        {"step": 6, "time": 1.0, "producer": "trainer", "loss/mean": 0.25},
        {"step": None, "time": 2.0, "producer": "orchestrator", "inference/running": 3.0},
    )
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.scalars["loss/mean"].dropna().tolist() == [0.25]
        assert not len(run.unread)
