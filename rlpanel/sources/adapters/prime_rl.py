"""Reads prime-rl's ``rollouts/step_{N}/{train,eval}/{all,effective}/traces.jsonl``, one line per episode.

An episode holds traces. A trace is a graph of messages, and each path from a root to a leaf is a sample. Only
tokens that the policy sampled belong to the response's arrays. Other parts (tool answers, templates) are in
its text without numbers. Lines are appended. ``effective``, with advantages, replaces ``all`` when the batch
is final.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.record_types import Record

STEP = re.compile(r"(?:^|/)step_(\d{1,15})/")
_FIRST, _FINAL = "/all/traces.jsonl", "/effective/traces.jsonl"
_ARRAYS = {"logprobs": "rollout_logprobs", "reference_logprobs": "ref_logprobs", "advantages": "advantages"}

Node = Mapping[str, Any]
Field = tuple[str, Any]


class PrimeRL:
    """Adapter for prime-rl's episodes."""

    name = "prime-rl"
    looks = "rollouts/step_{N}/{train,eval}/{all,effective}/traces.jsonl with 'traces' and 'task' (prime-rl)"
    path_in_run = re.compile(
        r"(?:rollouts/)?(?:step_\d+/)?(?:train/|eval/)?(?:all/|effective/)?traces\.jsonl$"
    )

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line is an episode."""
        return {"traces", "task"} <= document.keys()

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the samples of an episode."""
        episode = {key: to_python(value) for key, value in document.items()}
        step = step_of(episode, path)
        return [
            build_record(step, fields, path, full=full)
            for trace in _traces(episode)
            for nodes in branches(trace.get("nodes", []))
            if (fields := [*_episode_fields(episode, trace, path), *_texts(nodes), *_tokens(nodes)])
        ]


def superseded(names: set[str]) -> set[str]:
    """Return the ``all`` files whose batch has an ``effective`` file as well."""
    return {name for name in names if name.endswith(_FIRST) and name.removesuffix(_FIRST) + _FINAL in names}


def step_of(document: Mapping[str, Any], path: str) -> Any:
    """Return the step in the file's path, or else the step at which the episode was dispatched."""
    if match := STEP.search(path):
        return int(match[1])
    work = (document.get("run") or {}).get("work") or {}
    if "step" not in work:
        raise LineError("no step: neither a folder step_{N} nor 'run.work.step'")
    return work["step"]


def _traces(episode: Mapping[str, Any]) -> list[dict[str, Any]]:
    traces = episode.get("traces")
    if not isinstance(traces, list):
        raise LineError("'traces' is not a list")
    if not traces:
        errors = episode.get("errors") or [{}]
        raise LineError(
            f"an episode without traces: {str(errors[-1].get('message', 'no reason given'))[:120]}"
        )
    return traces


def branches(nodes: list[Node]) -> Iterator[list[Node]]:
    """Yield each path from a root to a leaf that contains a message of the policy.

    Raises
    ------
    LineError
        If a node's parent is not an earlier node.
    """
    parents = [node.get("parent") for node in nodes]
    if any(parent is not None and not 0 <= parent < index for index, parent in enumerate(parents)):
        raise LineError("a message's 'parent' is not an earlier message")
    for leaf in sorted(set(range(len(nodes))) - set(parents)):
        path: list[Node] = []
        index: int | None = leaf
        while index is not None:
            path.append(nodes[index])
            index = parents[index]
        if any(node.get("sampled") for node in path):
            yield path[::-1]


def _episode_fields(episode: Mapping[str, Any], trace: Mapping[str, Any], path: str) -> Iterator[Field]:
    """Yield the fields that all samples of a trace share."""
    work = (episode.get("run") or {}).get("work") or {}
    env, rewards = episode.get("env") or {}, trace.get("rewards") or {}
    yield "group", (episode.get("group") or {}).get("id")
    yield "env", env.get("name") or env.get("id")
    yield "episode", episode.get("id")
    yield "finish_reason", trace.get("stop_condition")
    yield "split", "eval" if "/eval/" in f"/{path}" or work.get("type") == "eval" else "train"
    if "step" in work:
        yield "dispatch_step", work["step"]
    scored = {name: reward for name, reward in rewards.items() if reward}
    yield "rewards", {name: reward.get("score") for name, reward in scored.items()}
    if scored:
        yield "reward", sum(reward["score"] * reward.get("weight", 1.0) for reward in scored.values())
    for name, value in (trace.get("metrics") or {}).items():
        yield f"metrics/{name}", value
    data = (episode.get("task") or {}).get("data") or {}
    if data.get("answer") is not None:
        yield "ground_truth", str(data["answer"])


def _texts(nodes: list[Node]) -> Iterator[Field]:
    """Yield the messages before the policy's first one as the prompt, and the others as the response."""
    first = next(index for index, node in enumerate(nodes) if node.get("sampled"))
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
    """Yield the tokens that the policy sampled and their arrays, which have one value per sampled token."""
    sampled = [token for node in nodes for token, is_sampled in _masked_tokens(node) if is_sampled]
    if not sampled:
        return
    yield "response_token_ids", sampled
    for key, name in _ARRAYS.items():
        if all(node.get(key) is not None for node in nodes if any(node.get("mask") or ())):
            yield name, [value for node in nodes for value in node.get(key) or ()]


def _masked_tokens(node: Node) -> Iterator[tuple[int, bool]]:
    return zip(node.get("token_ids") or (), node.get("mask") or (), strict=False)
