"""prime-rl: ``rollouts/step_{N}/{train,eval}/{all,effective}/traces.jsonl``, a line an episode, appended.

An episode holds traces, a trace is a graph of messages, and each way from a root to a leaf is a sample. Only
tokens that the policy sampled are the response's: what stands between them (tools' answers, templates) is in
the text and has no numbers. ``effective`` replaces ``all`` when the batch is final, with advantages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import record_of
from rlpanel.sources.records.json_parser import plain
from rlpanel.sources.records.record_types import Record

STEP = re.compile(r"(?:^|/)step_(\d{1,15})/")
_FIRST, _FINAL = "/all/traces.jsonl", "/effective/traces.jsonl"
_ARRAYS = {"logprobs": "rollout_logprobs", "reference_logprobs": "ref_logprobs", "advantages": "advantages"}

Node = Mapping[str, Any]
Field = tuple[str, Any]


class PrimeRL:
    """prime-rl's episodes."""

    name = "prime-rl"
    looks = "rollouts/step_{N}/{train,eval}/{all,effective}/traces.jsonl with 'traces' and 'task' (prime-rl)"
    path_in_run = re.compile(
        r"(?:rollouts/)?(?:step_\d+/)?(?:train/|eval/)?(?:all/|effective/)?traces\.jsonl$"
    )

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Whether the line is an episode."""
        return {"traces", "task"} <= document.keys()

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """The episode's samples."""
        episode = {key: plain(value) for key, value in document.items()}
        step = step_of(episode, path)
        return [
            record_of(step, fields, path, full=full)
            for trace in _traces(episode)
            for nodes in branches(trace.get("nodes", []))
            if (fields := [*_about(episode, trace, path), *_said(nodes), *_tokens(nodes)])
        ]


def superseded(names: set[str]) -> set[str]:
    """Files that others replace."""
    return {name for name in names if name.endswith(_FIRST) and name.removesuffix(_FIRST) + _FINAL in names}


def step_of(document: Mapping[str, Any], path: str) -> Any:
    """The step whose folder holds the file, else the one at which the episode was sent out."""
    if found := STEP.search(path):
        return int(found[1])
    work = (document.get("run") or {}).get("work") or {}
    if "step" not in work:
        raise LineError("no step: neither a folder step_{N} nor 'run.work.step'")
    return work["step"]


def _traces(episode: Mapping[str, Any]) -> list[dict[str, Any]]:
    traces = episode.get("traces")
    if not isinstance(traces, list):
        raise LineError("'traces' is no list")
    if not traces:
        errors = episode.get("errors") or [{}]
        raise LineError(
            f"an episode without a trace: {str(errors[-1].get('message', 'no reason given'))[:120]}"
        )
    return traces


def branches(nodes: list[Node]) -> Iterator[list[Node]]:
    """Every way from a root to a leaf on which the policy said something.

    Raises
    ------
    LineError
        If a node's parent does not stand before it.
    """
    parents = [node.get("parent") for node in nodes]
    if any(parent is not None and not 0 <= parent < at for at, parent in enumerate(parents)):
        raise LineError("a message's 'parent' does not stand before it")
    for leaf in sorted(set(range(len(nodes))) - set(parents)):
        path: list[Node] = []
        at: int | None = leaf
        while at is not None:
            path.append(nodes[at])
            at = parents[at]
        if any(node.get("sampled") for node in path):
            yield path[::-1]


def _about(episode: Mapping[str, Any], trace: Mapping[str, Any], path: str) -> Iterator[Field]:
    """What holds for all samples of a trace."""
    work = (episode.get("run") or {}).get("work") or {}
    env, rewards = episode.get("env") or {}, trace.get("rewards") or {}
    yield "group", (episode.get("group") or {}).get("id")
    yield "env", env.get("name") or env.get("id")
    yield "episode", episode.get("id")
    yield "finish_reason", trace.get("stop_condition")
    yield "split", "eval" if "/eval/" in f"/{path}" or work.get("type") == "eval" else "train"
    if "step" in work:
        yield "dispatch_step", work["step"]
    known = {name: reward for name, reward in rewards.items() if reward}
    yield "rewards", {name: reward.get("score") for name, reward in known.items()}
    if known:
        yield "reward", sum(reward["score"] * reward.get("weight", 1.0) for reward in known.values())
    for name, value in (trace.get("metrics") or {}).items():
        yield f"metrics/{name}", value
    data = (episode.get("task") or {}).get("data") or {}
    if data.get("answer") is not None:
        yield "ground_truth", str(data["answer"])


def _said(nodes: list[Node]) -> Iterator[Field]:
    """The messages before the policy's first, and from there on."""
    first = next(at for at, node in enumerate(nodes) if node.get("sampled"))
    yield "prompt", [_message(node) for node in nodes[:first]]
    answer = [_message(node) for node in nodes[first:]]
    yield "response", answer if len(answer) > 1 else answer[0]["content"]


def _message(node: Node) -> dict[str, Any]:
    message = node.get("message") or {}
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(str(part.get("text", part)) for part in content if isinstance(part, dict))
    thought = message.get("reasoning_content")
    text = "\n".join(part for part in (thought, content) if part)
    return {"role": message.get("role", "?"), "content": text}


def _tokens(nodes: list[Node]) -> Iterator[Field]:
    """The tokens that the policy sampled; arrays hold one value for each of them already."""
    sampled = [token for node in nodes for token, own in _own(node) if own]
    if not sampled:
        return
    yield "response_token_ids", sampled
    for key, name in _ARRAYS.items():
        if all(node.get(key) is not None for node in nodes if any(node.get("mask") or ())):
            yield name, [value for node in nodes for value in node.get(key) or ()]


def _own(node: Node) -> Iterator[tuple[int, bool]]:
    return zip(node.get("token_ids") or (), node.get("mask") or (), strict=False)
