"""Reads prime-rl's ``rollouts/step_{N}/{train,eval}/{all,effective}/traces.jsonl``, one line per episode.

An episode holds traces. A trace is a graph of messages. Each path from a root to a leaf is a branch, and one
training sample. As in prime-rl, a message that several branches share is trained in the first of them that is
trained. A summary that the agent attempted and did not continue from is not trained (verifiers'
``compaction_attempt``). Only tokens that the policy sampled belong to the response's arrays. Other parts
(tool answers, templates) are in its text without numbers. Lines are appended.

``all`` holds every episode that arrived, ``effective`` those that were trained on, written when the batch is
final; see `prime_rl_stream` for the difference of the two. An episode or trace that failed has no reward: its
status and the error say what happened. Traces of agents that are not trained, and branches that are not, are
in the split discarded. ``traces.jsonl`` of verifiers' evaluations has the same lines and no step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlpanel.errors import LineError
from rlpanel.schema import LABEL_MAX
from rlpanel.sources.records.adapter_calls import WrappedAdapter
from rlpanel.sources.records.fields import build_record, require_keys
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.path_numbers import folder_step
from rlpanel.sources.records.record_types import Record

Node = Mapping[str, Any]


@dataclass(frozen=True)
class Branch:
    """A path from a root to a leaf.

    Attributes
    ----------
    index : int
        Number of the leaf among all leaves of the trace.
    nodes : list of Node
    trainable : bool
        False for a summary that was not used, and if earlier branches train all sampled tokens.
    trained : list of bool
        For each node, whether its sampled tokens are trained in this branch.
    parent : int
        Index of the branch that it came from; -1 for none.
    kind : str
        How it came from its parent, as `rlpanel.schema` names it; empty without a parent.
    links : list of mapping
        What other branches gave to its own messages: the type of verifiers' link, the other branch's index
        (``from``) and turn (``turn``, from 1), and the turn here (``at``).
    has_others : bool
        Whether the trace has several branches.
    """

    index: int
    nodes: list[Node]
    trainable: bool
    trained: list[bool]
    parent: int = -1
    kind: str = ""
    links: list[dict[str, Any]] = field(default_factory=list)
    has_others: bool = False

    @property
    def loss_mask(self) -> list[int]:
        """1 for each sampled token that is trained in this branch, else 0."""
        sampled = (sum(map(bool, node.get("mask") or ())) for node in self.nodes)
        return [int(own) for own, count in zip(self.trained, sampled, strict=True) for _ in range(count)]


def branches(nodes: list[Node]) -> list[Branch]:
    """Return the branches that contain a message of the policy, or else all messages as one branch.

    Raises
    ------
    LineError
        If a node's parent is not an earlier node.
    """
    ways = paths(nodes)
    if not any(node.get("sampled") for node in nodes):
        return [Branch(0, nodes, True, [True] * len(nodes))]
    used = {link.get("node") for node in nodes for link in _links(node) if link.get("type") == "compaction"}
    owners, turns = _owners(nodes, ways), _turns(nodes)
    found: list[Branch] = []
    earlier: set[int] = set()  # sampled nodes that a branch before trains
    for index, path in enumerate(ways):
        attempt = any(link.get("type") == "compaction_attempt" for link in _links(nodes[path[-1]]))
        sampled = {at for at in path if nodes[at].get("sampled") and any(nodes[at].get("mask") or ())}
        trainable = (not attempt or path[-1] in used) and not (sampled and sampled <= earlier)
        if any(nodes[at].get("sampled") for at in path):
            own = [at not in earlier for at in path]
            place = _place(nodes, path, index, owners, turns)
            found.append(Branch(index, [nodes[at] for at in path], trainable, own, *place, len(ways) > 1))
        if trainable:
            earlier |= sampled
    return found


#: How a branch came from another one by verifiers' semantic links (`verifiers.v1.semantic`), strongest first.
_KINDS = {"subagent_call": "sub-agent", "compaction": "compaction", "continuation": "turn"}


def _owners(nodes: Sequence[Node], ways: Sequence[list[int]]) -> list[int]:
    """Return for each node the first branch with a message of the policy that it is in; -1 for none."""
    owners = [-1] * len(nodes)
    for index, path in enumerate(ways):
        if any(nodes[at].get("sampled") for at in path):
            for at in path:
                owners[at] = index if owners[at] < 0 else owners[at]
    return owners


def _turns(nodes: Sequence[Node]) -> list[int]:
    """Return the turn of each node: how many messages the policy sampled from its root to it."""
    turns: list[int] = []
    for node in nodes:
        parent = node.get("parent")
        turns.append((0 if parent is None else turns[parent]) + bool(node.get("sampled")))
    return turns


def _place(
    nodes: Sequence[Node], path: Sequence[int], index: int, owners: Sequence[int], turns: Sequence[int]
) -> tuple[int, str, list[dict[str, Any]]]:
    """Return the branch that a branch came from, how, and what other branches gave to it.

    Messages that it shares with an earlier branch say so; of one without, verifiers' links.
    """
    shared = [owners[at] for at in path if owners[at] != index]
    links: list[dict[str, Any]] = [
        {"type": str(link.get("type")), "from": owners[given], "turn": turns[given], "at": turns[at]}
        for at in path
        if owners[at] == index
        for link in _links(nodes[at])
        if isinstance(given := link.get("node"), int) and 0 <= given < len(nodes)
        if owners[given] not in (index, -1)
    ]
    if shared:
        return shared[-1], "branch", links
    for type_, kind in _KINDS.items():
        for link in links:
            if link["type"] == type_:
                return link["from"], kind, links
    return -1, "", links


def paths(nodes: Sequence[Node]) -> list[list[int]]:
    """Return the nodes from a root to each leaf, in the order of the leaves.

    Raises
    ------
    LineError
        If a node's parent is not an earlier node.
    """
    parents = [node.get("parent") for node in nodes]
    for index, parent in enumerate(parents):
        if parent is not None and not (isinstance(parent, int) and 0 <= parent < index):
            raise LineError("a message's 'parent' is not an earlier message")
    found = []
    for leaf in sorted(set(range(len(parents))) - set(parents)):
        path: list[int] = []
        at: int | None = leaf
        while at is not None:
            path.append(at)
            at = parents[at]
        found.append(path[::-1])
    return found


def _links(node: Node) -> list[Mapping[str, Any]]:
    return [link for link in node.get("semantic_parents") or () if isinstance(link, Mapping)]


#: Split of samples that were not trained on.
DISCARDED = "discarded"
_PLACE = re.compile(r"(?:^|/)(step_\d{1,15}(?:/(?:train|eval))?(?:/(?:all|effective))?)/?$")
_SUBSET = re.compile(r"^((?:.+/)?)(all|effective)/traces\.jsonl(?:\.|$)")
_ARRAYS = {
    "logprobs": "rollout_logprobs",
    "trainer_logprobs": "logprobs",
    "reference_logprobs": "ref_logprobs",
    "advantages": "advantages",
    "entropies": "entropy",
}
#: Reasons to stop that verifiers counts as truncation.
_LIMITS = frozenset(
    {"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "compaction_failed"}
)

#: Phases of rlpanel by those of a trace's timing; the agent's own span holds generation and harness.
_PHASES = {"boot": "environment", "setup": "environment", "finalize": "environment", "scoring": "score"}

Field = tuple[str, Any]


class PrimeRL:
    """Adapter for prime-rl's episodes."""

    name = "prime-rl"
    looks = "rollouts/step_{N}/{train,eval}/{all,effective}/traces.jsonl, traces/stream/{N}.jsonl or "
    looks += "traces.jsonl with 'traces' and 'task' (prime-rl, verifiers)"
    path_in_run = re.compile(
        r"(?:rollouts/)?(?:step_\d+/)?(?:train/|eval/)?(?:all/|effective/)?traces\.jsonl$"
        r"|(?<![^/])(?:(?:(?:monitors/)?file/)?traces/)?stream(?:/\d+)?\.jsonl$"
    )

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line is an episode."""
        return {"traces", "task"} <= document.keys()

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the samples of an episode; one that failed before its first message has no text."""
        episode = {key: to_python(value) for key, value in document.items()}
        step = step_of(episode, path)
        return [
            branch_record(branch, step, list(episode_fields(episode, trace, path)), path, full=full)
            for trace in traces_of(episode)
            for branch in branches(trace.get("nodes", []))
        ]


@dataclass(frozen=True)
class PlacedTraces(WrappedAdapter):
    """Adapter for traces of a run that is itself a folder of a step: its path says the step and the split.

    Attributes
    ----------
    adapter : Adapter
        Adapter for the same file in the folder above.
    above : str
        The end of the run's path, with a slash behind it.
    """

    above: str

    @property
    def name(self) -> str:
        """Name that is unique for the adapter and the place."""
        return f"{self.adapter.name} in {self.above}"

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the samples of an episode."""
        return self.adapter.read(document, self.above + path, full=full)


def place_above(folder: str) -> str:
    """Return the end of a folder's path from its step on, with a slash behind it; empty without a step."""
    match = _PLACE.search(folder)
    return f"{match[1]}/" if match else ""


def branch_record(branch: Branch, step: Any, shared: list[Field], path: str, *, full: bool) -> Record:
    """Build the record of a branch from its messages and the fields that all samples of the trace share."""
    fields = [*shared, *_branch_fields(branch, shared), *_texts(branch.nodes), *_tokens(branch.nodes)]
    mask = branch.loss_mask
    if dict(shared).get("split") != "train":
        return build_record(step, fields, path, full=full)
    if not branch.trainable:
        reason = "the branch was not trained: a summary that was not used, or no message of its own"
        fields += [("split", DISCARDED), ("status", DISCARDED), ("status_reason", reason)]
        fields = [(name, value) for name, value in fields if name != "trainer_version"]
    elif mask:
        fields.append(("loss_mask", mask))
    record = build_record(step, fields, path, full=full)
    if "loss_mask" in record.arrays:
        between = dict(fields).get("context_tokens", 0)
        record.numbers["context_tokens"] += between
        record.numbers["trajectory_tokens"] += between
    return record


def _branch_fields(branch: Branch, shared: list[Field]) -> Iterator[Field]:
    """Yield the place of a branch among those of its trace; nothing for an only branch."""
    trace = dict(shared).get("trajectory")
    if branch.index == 0 and branch.parent < 0 and not branch.has_others:
        return
    place = f"{trace}/" if trace else ""
    yield "branch", f"{place}{branch.index}"
    if branch.parent >= 0:
        yield "parent", f"{place}{branch.parent}"
        yield "branch_kind", branch.kind
    if branch.links:
        yield "links", [link | {"from": f"{place}{link['from']}"} for link in branch.links]


def superseded(names: set[str]) -> dict[str, str]:
    """Return the ``all`` files whose batch has an ``effective`` file as well, each with that file."""
    places = {name: match for name in names if (match := _SUBSET.search(name))}
    finals = {match[1]: name for name, match in places.items() if match[2] == "effective"}
    return {name: finals[m[1]] for name, m in places.items() if m[2] == "all" and m[1] in finals}


def step_of(document: Mapping[str, Any], path: str) -> Any:
    """Return the step in the file's path, or else the step at which the episode was dispatched.

    An evaluation that belongs to no training has step 0.
    """
    if (step := folder_step(path)) is not None:
        return step
    run = document.get("run") or {}
    work = run.get("work") or {}
    if "step" not in work and run.get("type") == "eval":
        return 0
    if "step" not in work:
        raise LineError("no step: neither a folder step_{N} nor 'run.work.step'")
    return work["step"]


def traces_of(episode: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return an episode's traces; an empty one if the episode failed before it had any.

    Raises
    ------
    LineError
        If the episode has no list of traces.
    """
    traces = episode.get("traces")
    if not isinstance(traces, list):
        raise LineError("'traces' is not a list")
    return traces or [{}]


def episode_fields(episode: Mapping[str, Any], trace: Mapping[str, Any], path: str) -> Iterator[Field]:
    """Yield the fields that all samples of a trace share.

    Raises
    ------
    LineError
        If the trace lacks a key that decides its reward, its split or its branches.
    """
    if trace:
        require_keys(trace, "traces[]", "ok", "nodes")
    for node in trace.get("nodes") or ():
        require_keys(node, "traces[].nodes[]", "sampled", "message")
    run = episode.get("run") or {}
    work = run.get("work") or {}
    env, agent = episode.get("env") or {}, trace.get("agent") or {}
    error = _error(episode, trace)
    evaluation = "/eval/" in f"/{path}" or (work.get("type") or run.get("type")) == "eval"
    yield "group", (episode.get("group") or {}).get("id")
    yield "env", env.get("name") or env.get("id")
    yield "episode", episode.get("id")
    yield "agent", agent.get("name")
    if len(episode.get("traces") or ()) > 1:  # prime-rl's statistics are over traces
        yield "trajectory", trace.get("id")
    yield "finish_reason", trace.get("stop_condition")
    unused = bool(error) or agent.get("trainable") is False
    yield "split", "eval" if evaluation else DISCARDED if unused else "train"
    late = bool((trace or episode).get("is_timeout"))
    truncated = _is_truncated(trace)
    if truncated is not None:
        yield "truncated", int(truncated)
    yield "status", _status(error, late=late, truncated=bool(truncated))
    if error:
        yield "status_reason", ": ".join(filter(None, (error.get("type"), error.get("message"))))[:LABEL_MAX]
    else:
        yield from _reward_fields(trace.get("rewards") or {})
        if late or truncated:
            yield "status_reason", trace.get("stop_condition")
    if "step" in work:
        yield "dispatch_step", work["step"]
    policy = work.get("policy") or {}
    trained = folder_step(path)
    if trained is not None and not unused and not evaluation:
        # prime-rl counts steps from 1 and starts with version 0: step N trains version N - 1.
        yield "trainer_version", trained - 1
    yield "timing", _timing(trace.get("timing") or {})
    versions = [policy[border] for border in ("start", "end") if policy.get(border) is not None]
    if versions:
        yield "policy_version", versions
    calls = (trace.get("info") or {}).get("judge_calls")
    if calls:
        yield "judge_calls", _judge_calls(calls, trace.get("rewards") or {})
    for name, value in (trace.get("metrics") or {}).items():
        yield f"metrics/{name}", value
    data = (episode.get("task") or {}).get("data") or {}
    if data.get("answer") is not None:
        yield "ground_truth", str(data["answer"])


def _error(episode: Mapping[str, Any], trace: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the error that ended a trace or its episode; None if a later attempt succeeded."""
    for part in (trace, episode):
        errors = part.get("errors")
        if errors and (not part.get("ok") or not trace):
            return errors[-1] if isinstance(errors[-1], dict) else {"message": str(errors[-1])}
    if trace.get("ok") is False:
        return {"message": trace.get("stop_condition") or "not ok"}
    return None if trace else {"message": "an episode without traces"}


def _timing(logged: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the seconds of a trace's phases, and when they began and ended; phases that never began are 0.

    Of the agent's time, the model's share is the generation; the harness's also holds its tools.
    """
    spans = [
        [_PHASES.get(name, name), part["start"], part["end"]]
        for name, part in logged.items()
        if isinstance(part, dict) and part.get("start") and part.get("end")
    ]
    if not spans:
        return {"start": logged["start"]} if logged.get("start") else None
    timing: dict[str, Any] = {"spans": spans}
    for part, phase in (("model", "generation"), ("harness", "environment")):
        seconds = ((logged.get("agent") or {}).get(part) or {}).get("duration")
        if seconds is not None:
            others = [end - start for name, start, end in spans if name == phase]
            timing[phase] = seconds + sum(others)
    begin = logged.get("start") or min(start for _, start, _ in spans)
    return timing | {"start": begin, "total": max(end for _, _, end in spans) - begin}


def _is_truncated(trace: Mapping[str, Any]) -> bool | None:
    """Return whether a limit ended a trace, or the last answer of its model; None if that is not logged."""
    stop, calls = trace.get("stop_condition"), trace.get("calls") or ()
    if stop in _LIMITS:
        return True
    last = next((call for call in reversed(calls) if call.get("error") is None), None)
    if last is not None and last.get("finish_reason") is not None:
        return bool(last["finish_reason"] == "length")
    return None if stop is None else False


def _status(error: Mapping[str, Any] | None, *, late: bool, truncated: bool) -> str:
    """Return the status that an error's type stands for, or how a trace without an error ended."""
    kind = str((error or {}).get("type")).lower()
    if late or "timeout" in kind:
        return "timeout"
    if error is None:
        return "truncated" if truncated else "ok"
    return "tool_error" if "tool" in kind else "environment_error"


def _reward_fields(rewards: Mapping[str, Any]) -> Iterator[Field]:
    scored = {name: reward for name, reward in rewards.items() if reward}
    for name, reward in scored.items():
        require_keys(reward, f"traces[].rewards.{name}", "score", "weight")
    yield "rewards", {name: reward["score"] for name, reward in scored.items()}
    if scored:
        yield "reward", sum(reward["score"] * reward["weight"] for reward in scored.values())


def _judge_calls(calls: Any, rewards: Mapping[str, Any]) -> Any:
    """Return the calls of judges; the only call of a judge gets the score of the reward of its name.

    verifiers records a rubric's verdicts as an object, and only the reward has the number.
    """
    if not isinstance(calls, list) or not all(isinstance(call, Mapping) for call in calls):
        return calls
    names = [call.get("name") for call in calls]
    scored = {name: reward.get("score") for name, reward in rewards.items() if isinstance(reward, Mapping)}
    return [
        {"score": scored[name], **call} if name in scored and names.count(name) == 1 else call
        for name, call in zip(names, calls, strict=True)
    ]


def _message(node: Node) -> dict[str, Any]:
    """Return a node's message with the node's time."""
    message = node.get("message") or {}
    stamp = node.get("timestamp")
    return message if stamp is None else {"timestamp": stamp, **message}


def _texts(nodes: list[Node]) -> Iterator[Field]:
    """Yield the messages before the policy's first one as the prompt, and the others as the response."""
    first = next((index for index, node in enumerate(nodes) if node.get("sampled")), len(nodes))
    messages = [_message(node) for node in nodes]
    if messages[:first]:
        yield "prompt", messages[:first]
    if messages[first:]:
        yield "response", messages[first:]


def _tokens(nodes: list[Node]) -> Iterator[Field]:
    """Yield the tokens that the policy sampled and their arrays, which have one value per sampled token."""
    sampled = [token for node in nodes for token, is_sampled in _masked_tokens(node) if is_sampled]
    if not sampled:
        return
    yield "response_token_ids", sampled
    first = next(index for index, node in enumerate(nodes) if any(node.get("mask") or ()))
    after = [is_sampled for node in nodes[first:] for _, is_sampled in _masked_tokens(node)]
    yield "context_tokens", after[after.index(True) :].count(False)
    for key, name in _ARRAYS.items():
        if all(node.get(key) is not None for node in nodes if any(node.get("mask") or ())):
            yield name, [value for node in nodes for value in node.get(key) or ()]
    # The loss still holds these tokens, only without their policy gradient: it is not the loss mask.
    decided = [value for node in nodes for value in node.get("is_masked") or () if value is not None]
    if decided:
        yield "is_masked", sum(map(bool, decided)) / len(decided)
    by_token = [value for node in nodes for value in node.get("is_masked") or ()]
    if decided and len(by_token) == len(sampled):
        yield "is_masked", [None if value is None else int(value) for value in by_token]


def _masked_tokens(node: Node) -> Iterator[tuple[int, bool]]:
    return zip(node.get("token_ids") or (), node.get("mask") or (), strict=False)
