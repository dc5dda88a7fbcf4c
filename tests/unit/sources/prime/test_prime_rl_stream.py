"""prime-rl's stream of episodes since September 2026: what was trained on is written later, beside it.

The lines have the keys that prime-rl's file monitor, its orchestrator and its trainer write.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.schema import Sample
from rlpanel.settings import Reading
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


def row(name: str, chunk: int = 0, offset: int = 0) -> dict[str, Any]:
    return {"trace_ids": [name], "chunk": chunk, "offset": offset, "id": f"e-{name}"}


def put_stream(folder: Path, *episodes: dict[str, Any]) -> Path:
    """Write a file of the stream and its rows of the index."""
    stream = folder / "stream" / "00000.jsonl"
    for each in episodes:
        offset = stream.stat().st_size if stream.exists() else 0
        put(stream, each)
        put(folder / "stream.index.jsonl", *(row(trace["id"], 0, offset) for trace in each["traces"]))
    return stream


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


def samples(folder: Path, split: str = "train", errors: int = 0) -> list[Sample]:
    with rlpanel.open_run(folder, follow=False) as run:
        assert len(run.errors) == errors
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
    arrays = sample.arrays()
    np.testing.assert_array_equal(arrays.pop("is_masked"), [1.0, np.nan, 0.0])
    assert {name: array.tolist() for name, array in arrays.items()} == {
        "response_token_ids": [0, 1, 0], "rollout_logprobs": [-0.5] * 3, "advantages": [0.5] * 3,
        "logprobs": [-0.25, -0.25, -0.75], "entropy": [0.5] * 3, "loss_mask": [1] * 3,
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
    assert first.loss_mask is not None
    assert first.loss_mask.tolist() == [1] * 3
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
    assert (found, index.bytes_read - read) == ({"train": [(5, 1.0), (6, 0.0)]}, size - len(b"\n"))


def batches(folder: Path, stream: Path, names: list[str], size: int) -> tuple[RunIndex, int]:
    """Follow a run while traces are shipped in batches; return it and the bytes that were read for them."""
    index = RunIndex(folder, "run", Reading(cache=False))
    look(index)
    before, notes = index.bytes_read, stream.parent.parent / "annotations" / "orch" / "00000.jsonl"
    for at in range(0, len(names), size):
        put(notes, *(shipped(name, 6 + at // size, 0.5) for name in names[at : at + size]))
        look(index)
    return index, index.bytes_read - before


def state(index: RunIndex) -> dict[str, Any]:
    """What a run shows, in the order of its lines."""
    frame = index.view.frame(index.snapshot.alive_rows)
    order = sorted(range(len(frame["uid"])), key=lambda at: frame["uid"].tolist()[at])
    shown = {name: [_text(frame[name].tolist()[at]) for at in order] for name in frame.columns}
    return shown | {"restarts": index.snapshot.restarts, "samples": index.snapshot.samples}


def _text(value: Any) -> str:
    """A value as text, without the last digits, which depend on the order of a sum."""
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def test_only_the_episodes_of_new_updates_are_read_again(tmp_path: Path) -> None:
    names = [f"trace-{at}" for at in range(40)]
    stream = put_stream(tmp_path / TRACES, *(episode(name, at / 40) for at, name in enumerate(names)))
    index, read = batches(tmp_path, stream, names, 5)
    assert read == stream.stat().st_size - len(names), "each line once, without its newline"
    again = RunIndex(tmp_path, "run", Reading(cache=False))
    look(again)
    assert state(index) == state(again)
    assert index.snapshot.samples == 40


def test_an_index_with_wrong_offsets_costs_time_but_no_update(tmp_path: Path) -> None:
    names = [f"trace-{at}" for at in range(6)]
    stream = put_stream(tmp_path / TRACES, *(episode(name, at / 6) for at, name in enumerate(names)))
    rows = (tmp_path / TRACES / "stream.index.jsonl").read_text().splitlines()
    wrong = [json.dumps(json.loads(line) | {"offset": json.loads(rows[0])["offset"]}) for line in rows]
    (tmp_path / TRACES / "stream.index.jsonl").write_text("\n".join(wrong) + "\n")
    index, read = batches(tmp_path, stream, names, 2)
    assert read > stream.stat().st_size
    assert sorted(look(index)["train"]) == [(6 + at // 2, at / 6) for at in range(6)]


def test_rows_that_were_read_again_are_kept_once_in_the_cache(tmp_path: Path) -> None:
    long = {"task": {"data": {"answer": "x" * 200_000}}}
    names = [f"trace-{at}" for at in range(24)]
    stream = put_stream(tmp_path / TRACES, *(episode(name, at / 24, **long) for at, name in enumerate(names)))
    index = RunIndex(tmp_path, "run")
    look(index)
    notes = put(stream.parent.parent / "annotations" / "orch.jsonl", shipped(names[3], 6, 0.5))
    look(index)
    index.close()
    opened = RunIndex(tmp_path, "run")
    look(opened)
    assert opened.bytes_read == 0
    assert state(opened) == state(index)
    put(notes, shipped(names[4], 6, 0.5))
    assert look(opened)["train"] == [(6, 3 / 24), (6, 4 / 24)]
    opened.close()


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


@pytest.mark.parametrize("part", ["traces/stream", "elsewhere"])
def test_a_stream_without_annotations_is_not_taken_for_training(tmp_path: Path, part: str) -> None:
    stream = put(tmp_path / part / "00000.jsonl", episode("kept", 1.0))
    if part == "elsewhere":
        put(tmp_path / "annotations" / "orch" / "00000.jsonl", shipped("kept", 6, 0.5))
    (inside,) = samples(stream.parent, "discarded")
    assert inside.status_reason is not None
    assert inside.status_reason.startswith("no folder 'annotations' beside the stream")


def test_the_folder_of_the_stream_itself_has_the_annotations_and_metrics_beside_it(tmp_path: Path) -> None:
    stream = put(tmp_path / TRACES / "stream" / "00000.jsonl", episode("kept", 1.0))
    put(tmp_path / TRACES / "annotations" / "orch" / "00000.jsonl", shipped("kept", 6, 0.5), {"trace_id": 7})
    put(tmp_path / TRACES.parent / "metrics.jsonl", {"step": 6, "loss/mean": 0.25})
    assert [each.step for each in samples(stream.parent, errors=1)] == [6]
    for folder in (stream.parent, stream.parent.parent):
        with rlpanel.open_run(folder, follow=False) as run:
            assert run.scalars["loss/mean"].tolist() == [0.25]
            (name,) = run.errors["file"]
            assert (folder / name).resolve() == tmp_path / TRACES / "annotations" / "orch" / "00000.jsonl"
    assert [info.name for info in rlpanel.discover(tmp_path)] == ["."]


def test_links_beside_the_stream_are_not_followed_from_it(tmp_path: Path) -> None:
    stream = put(tmp_path / "run" / TRACES / "stream" / "00000.jsonl", episode("kept", 1.0))
    put(tmp_path / "outside" / "orch" / "00000.jsonl", shipped("kept", 6, 0.5))
    metrics = put(tmp_path / "outside" / "metrics.jsonl", {"step": 6, "loss/mean": 0.25})
    (stream.parent.parent / "annotations").symlink_to(tmp_path / "outside")
    (stream.parent.parent.parent / "metrics.jsonl").symlink_to(metrics)
    with rlpanel.open_run(stream.parent, follow=False) as run:
        assert "loss/mean" not in run.scalars
        assert run.splits == {"discarded": 1}
        assert run.unread["file"].tolist() == ["../annotations"]


def test_a_broken_update_costs_that_update_only(tmp_path: Path) -> None:
    put(tmp_path / TRACES / "stream" / "00000.jsonl", episode("kept", 1.0), episode("other", 0.0))
    notes = tmp_path / TRACES / "annotations" / "orch" / "00000.jsonl"
    put(notes, shipped("kept", 6, 0.5))
    append(notes, b'{"trace_id": "other", "info": \n[]\n{"trace_id": 7}\n')
    put(notes, shipped("other", 7, -0.5))
    put(notes, {"trace_id": "kept", "info": {"arrival": 3}, "branches": [7, {"index": 0, "entropies": 5}]})
    put(notes, {"trace_id": "kept", "step": "seven"}, {"trace_id": "kept", "info": {"advantage": []}})
    found = samples(tmp_path, errors=5)
    assert [(each.step, each.advantage) for each in found] == [(6, 0.5), (7, -0.5)]
    assert list(found[0].notes) == [
        "an annotation is about a branch that the trace does not have: None",
        "'entropies' of an annotation is not a list",
    ]
    with rlpanel.open_run(tmp_path, follow=False) as run:
        errors = run.errors
    assert errors["file"].unique().tolist() == [notes.relative_to(tmp_path).as_posix()]
    assert errors["line"].tolist() == [2, 3, 4, 7, 8]
    assert errors["reason"].tolist()[2:] == [
        "no 'trace_id'",
        "the step is not a whole number: 'seven'",
        "the advantage is not a number: '[]'",
    ]


def test_annotations_that_are_not_read_are_named(tmp_path: Path) -> None:
    put(tmp_path / TRACES / "stream" / "00000.jsonl", episode("kept", 1.0))
    notes = put(tmp_path / TRACES / "annotations" / "orch" / "00000.jsonl", shipped("kept", 6, 0.5))
    append(notes, b'{"trace_id": "kept", "info": {"advantage"')
    os.utime(notes, (1e9, 1e9))
    (notes.parent / "00001.jsonl").symlink_to(notes)
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.unread["reason"].tolist() == [
            "its last line is incomplete (41 bytes)",
            "a link, which may lead out of the run",
        ]


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


def ended(name: str, **fields: Any) -> dict[str, Any]:
    """An episode whose trace has some fields of its own."""
    found = episode(name, 1.0)
    found["traces"][0] |= fields
    return found


def attempt(name: str) -> dict[str, Any]:
    """An episode with a summary that the agent did not continue from."""
    found = episode(name, 1.0)
    link = {"type": "compaction_attempt", "node": 1}
    found["traces"][0]["nodes"].append(node(1, "summary", 1) | {"semantic_parents": [link]})
    return found


def test_traces_end_in_the_stream_as_in_the_folders_of_steps(tmp_path: Path) -> None:
    """Timeouts, limits, forks and summaries that were not used are the same in both layouts of prime-rl."""
    episodes = [
        ended("late", is_timeout=True), ended("turns", stop_condition="max_turns"),
        ended("cut", calls=[{"error": None, "finish_reason": "length"}]),
        ended("full", calls=[{"error": None, "finish_reason": "stop"}]),
        attempt("attempt"), episode("forked", 1.0),
    ]  # fmt: skip
    put(tmp_path / "steps" / "rollouts" / "step_6" / "train" / "all" / "traces.jsonl", *episodes)
    stream = put_stream(tmp_path / "stream" / TRACES, *episodes)
    updates = [{"trace_id": each["traces"][0]["id"], "step": 6, "subset": "effective"} for each in episodes]
    put(stream.parent.parent / "annotations" / "orch.jsonl", *updates)

    def endings(folder: str, split: str) -> list[tuple[Any, ...]]:
        return [
            (
                each.episode, each.step, each.status, each.status_reason, each.columns.get("truncated"),
                None if each.loss_mask is None else tuple(each.loss_mask),
                None if split == "discarded" else each.columns["trainer_version"],
            )
            for each in sorted(samples(tmp_path / folder, split), key=lambda each: each.uid.split(":")[1])
        ]  # fmt: skip

    for split in ("train", "discarded"):
        assert endings("stream", split) == endings("steps", split)
    status = {name: (state, cut) for name, _, state, _, cut, *_ in endings("stream", "train")}
    assert status == {
        "e-late": ("timeout", 0.0), "e-turns": ("truncated", 1.0), "e-cut": ("truncated", 1.0),
        "e-full": ("ok", 0.0), "e-attempt": ("ok", 0.0), "e-forked": ("ok", 0.0),
    }  # fmt: skip


def test_a_trace_that_waits_keeps_how_it_ended(tmp_path: Path) -> None:
    put_stream(tmp_path / TRACES, ended("late", is_timeout=True), episode("kept", 1.0))
    assert [each.status for each in samples(tmp_path, "discarded")] == ["timeout", "discarded"]


def test_a_standalone_evaluation_in_a_stream_is_step_0(tmp_path: Path) -> None:
    run = {"run": {"type": "eval", "work": {}}}
    stream = put_stream(tmp_path / TRACES, episode("asked", 1.0, "eval", **run))
    for folder in (tmp_path, stream.parent):
        assert [each.step for each in samples(folder, "eval")] == [0]
