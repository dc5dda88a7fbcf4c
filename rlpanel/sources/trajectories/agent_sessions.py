"""Reads sessions of agents: a file of events is one conversation, hence one sample without a reward.

Claude Code and Pi log a tree of messages, because a message can be edited and a turn taken back: the way to
the newest message is read. Codex logs items of the Responses API. Hugging Face's session traces are a header
and messages. ``{"events": […]}`` is the whole file, as `readers.session_file` gives it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.chat_shapes import chat_messages
from rlpanel.sources.records.field_values import unix_seconds
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import parse_value, to_python
from rlpanel.sources.records.record_types import Record

Event = Mapping[str, Any]
Fields = Iterator[tuple[str, Any]]

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
#: Types of Codex's items that belong to the conversation; others are its bookkeeping.
_ITEM = re.compile(r"message|reasoning|\w+_call|\w+_call_output")
#: Roles of Pi's messages that neither the policy nor the user wrote.
_PI_ROLES = {
    "bashExecution": "environment",
    "custom": "environment",
    "branchSummary": "user",
    "compactionSummary": "user",
}


@dataclass(frozen=True)
class SessionFormat:
    """Adapter of the files of one program.

    Attributes
    ----------
    name, looks : str
    is_event : function
        Whether a line, beside its file's name, is one of this program's.
    read_events : function
        Fields of the sample, from all events.
    path_in_run : pattern
    """

    name: str
    looks: str
    is_event: Callable[[str, Event], bool]
    read_events: Callable[[Sequence[Event]], Fields]
    path_in_run: re.Pattern[str]
    whole_session = True
    lacks_steps = True

    def accepts(self, path: str, document: Event) -> bool:
        """Return True if a line is an event of this program."""
        return self.is_event(path, document)

    def read(self, document: Event, path: str, *, full: bool) -> list[Record]:
        """Read the session; nothing if it has no message yet."""
        logged = to_python(document["events"]) if "events" in document else [_plain(document)]
        events = [event for event in logged if isinstance(event, Mapping)]
        fields = dict(self.read_events(events))
        if not fields["messages"]:
            return []
        tokens = fields.pop("tokens", None)
        step = fields.pop("step", 0)
        record = build_record(step, [("split", "eval"), *fields.items()], path, full=full)
        if tokens:
            record.numbers.setdefault("response_tokens", float(tokens))
        return [record]


def _plain(document: Event) -> dict[str, Any]:
    return {key: to_python(value) for key, value in document.items()}


# -- Claude Code -------------------------------------------------------------------------------------


def _is_claude(path: str, event: Event) -> bool:
    # A session may begin with many summaries of others.
    return {"sessionId", "uuid", "message"} <= event.keys() or {"type", "summary", "leafUuid"} == event.keys()


def _claude(events: Sequence[Event]) -> Fields:
    spoken = list({e["uuid"]: e for e in events if e.get("uuid") and _message(e)}.values())
    main = [event for event in spoken if not event.get("isSidechain")] or spoken
    kept = _without_abandoned(events, main)
    messages = list(_claude_messages(kept))
    own = [event for event in kept if _is_policy(event)]
    last = own[-1] if own else {}
    yield "messages", messages
    yield "agent", next((e["agentId"] for e in kept if e.get("agentId")), "Claude Code")
    yield "model", _message(last).get("model")
    yield "finish_reason", _message(last).get("stop_reason")
    yield from _labels(kept[0] if kept else {}, episode="sessionId", git_branch="gitBranch", cwd="cwd")
    if kept and kept[0].get("isSidechain"):  # a file of a sub-agent
        yield from _labels(kept[0], parent="sessionId")
        yield "branch_kind", "sub-agent"
    yield from _times(event.get("timestamp") for event in kept)
    usage = {_message(e).get("id") or e["uuid"]: _message(e).get("usage") for e in own}
    yield from _usage(usage.values(), input_tokens="prompt_tokens", output_tokens="tokens")
    yield from _left_out(abandoned=len(main) - len(kept), sidechain=len(spoken) - len(main))


def _message(event: Event) -> Mapping[str, Any]:
    message = event.get("message")
    return message if isinstance(message, Mapping) and message.get("role") else {}


def _is_policy(event: Event) -> bool:
    """Return True for words of the model; Claude Code writes errors of the provider in its name."""
    written = not event.get("isApiErrorMessage") and _message(event).get("model") != "<synthetic>"
    return _message(event).get("role") == "assistant" and written


def _without_abandoned(events: Sequence[Event], spoken: Sequence[Event]) -> list[Event]:
    """Return the messages without those of branches that were left: a prompt was edited, a turn repeated.

    Results of parallel calls belong to the way, although only one of them leads to the newest message.
    """
    known = {event["uuid"]: event for event in events if event.get("uuid")}
    way: set[Any] = set()
    at: Any = spoken[-1]["uuid"] if spoken else None
    while at in known and at not in way:
        way.add(at)
        at = known[at].get("parentUuid") or known[at].get("logicalParentUuid")
    turns = {_message(known[each]).get("id") for each in way} - {None}
    # Of each event beside that way: whether its parents lead to it, and whether a message leaves it.
    above: dict[Any, tuple[bool, bool]] = dict.fromkeys(way, (True, False))
    for event in spoken:
        chain, at = [], event["uuid"]
        while at in known and at not in above:
            above[at] = (False, False)  # also ends a circle
            chain.append(at)
            at = known[at].get("parentUuid")
        joins, leaves = above.get(at, (False, False))
        for each in reversed(chain):
            message = _message(known[each])
            is_part = not message or message.get("id") in turns or _holds_result(known[each])
            leaves = leaves or not is_part
            above[each] = (joins, leaves)
    return [event for event in spoken if above[event["uuid"]] != (True, True)]


def _holds_result(event: Event) -> bool:
    content = _message(event).get("content")
    parts = content if isinstance(content, list) else ()
    return any(isinstance(part, Mapping) and part.get("type") == "tool_result" for part in parts)


def _claude_messages(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    """Yield the messages; the parts of one answer, each an event, are one message."""
    open_turn: dict[str, Any] | None = None
    for event in events:
        message = {"timestamp": event.get("timestamp"), **_message(event)}
        if not _is_policy(event):
            if open_turn is not None:
                yield open_turn
            open_turn = None
            yield message | ({"role": "environment"} if message["role"] == "assistant" else {})
        elif open_turn is not None and message.get("id") is not None and message["id"] == open_turn["id"]:
            open_turn["content"] = [*_parts(open_turn), *_parts(message)]
            open_turn["timestamp"] = message["timestamp"]  # of the last part, when the turn was complete
        else:
            if open_turn is not None:
                yield open_turn
            open_turn = {"id": None, **message}
    if open_turn is not None:
        yield open_turn


def _parts(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else [content] if content else []


# -- Codex -------------------------------------------------------------------------------------------


def _is_codex(path: str, event: Event) -> bool:
    payload = event.get("payload")
    if event.get("type") in ("session_meta", "response_item") and hasattr(payload, "items"):
        return True
    named = path.rpartition("/")[2].startswith("rollout-")
    return named and {"id", "timestamp", "instructions"} <= event.keys()


def _codex(events: Sequence[Event]) -> Fields:
    bare = not any(isinstance(event.get("payload"), Mapping) for event in events)  # before September 2025
    parts = [(e.get("type"), e if bare else e.get("payload")) for e in events]
    payloads = [(kind, part) for kind, part in parts if isinstance(part, Mapping)]
    items = [part for kind, part in payloads if bare or kind == "response_item"]
    items = items or list(_bare_items(events))
    yield "messages", chat_messages([e for e in items if _ITEM.fullmatch(str(e.get("type")))])
    yield "agent", "Codex"
    meta = next((part for kind, part in payloads if bare or kind == "session_meta"), {})
    yield from _labels(meta, episode="id", cwd="cwd", version="cli_version")
    models = [part["model"] for kind, part in payloads if kind == "turn_context" and "model" in part]
    yield "model", models[-1] if models else None
    yield from _times(event.get("timestamp") for event in events)
    notes = [part for kind, part in payloads if kind == "event_msg"]
    infos = [note["info"] for note in notes if isinstance(note.get("info"), Mapping)]
    totals = [info.get("total_token_usage") for info in infos[-1:]]
    yield from _usage(totals, input_tokens="prompt_tokens", output_tokens="tokens")
    yield from _left_out(turns_back=sum(e.get("type") == "thread_rolled_back" for e in notes))


def _bare_items(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the items of a session that a tool has cut down to lines without a payload."""
    for event in events:
        if event.get("role"):
            yield {**event, "type": "message"}
        elif event.get("type") == "tool_call":
            yield {**event, "type": "function_call", "name": event.get("tool")}
        elif event.get("type") == "tool_result":
            yield {"type": "function_call_output", "output": event.get("content")}


# -- Pi and Hugging Face's session traces --------------------------------------------------------------


def _is_trace(path: str, event: Event) -> bool:
    known = {"harness", "cwd", "version"} & event.keys()
    return event.get("type") == "session" and "id" in event and bool(known)


def _trace(events: Sequence[Event]) -> Fields:
    header = events[0] if events else {}
    nodes = [_node(event) for event in events[1:]]
    way = _way(nodes, header.get("currNode"))
    kept = [message for key, _, message in nodes if message and (way is None or key in way)]
    yield "messages", [_trace_message(message) for message in kept]
    own = [message for message in kept if message["role"] == "assistant"]
    last = own[-1] if own else {}
    yield "agent", header.get("harness") or "Pi"
    yield "model", last.get("model") or header.get("modelId")
    yield "finish_reason", last.get("stopReason")
    yield from _labels(header, episode="id", title="name", cwd="cwd")
    yield from _times(message.get("timestamp") for message in kept)
    yield from _usage((message.get("usage") for message in own), input="prompt_tokens", output="tokens")
    yield from _left_out(abandoned=sum(bool(message) for *_, message in nodes) - len(kept))
    exported = header.get("rlpanel")  # what rlpanel's own export says beside the messages
    for key, value in exported.items() if isinstance(exported, Mapping) else ():
        if key not in ("uid", "messages"):
            yield key, value


def _node(event: Event) -> tuple[Any, Any, Mapping[str, Any]]:
    """Return the ids of an entry and of its parent, and the message in it."""
    message = _message(event) if event.get("type") == "message" else {}
    key = event.get("id") or message.get("id")
    is_root = message.get("type") == "root"  # llama.app's, which is empty
    return key, event.get("parentId") or message.get("parent"), {} if is_root else message


def _way(nodes: Sequence[tuple[Any, Any, Any]], leaf: Any) -> set[Any] | None:
    """Return the ids from a leaf, else the last entry, to its root; None if the entries name no parents."""
    parents = {key: parent for key, parent, _ in nodes if key is not None}
    if len(parents) < len(nodes) or not any(parents.values()):
        return None
    at, way = leaf if leaf in parents else nodes[-1][0], set[Any]()
    while at in parents and at not in way:
        way.add(at)
        at = parents[at]
    return way


def _trace_message(message: Mapping[str, Any]) -> dict[str, Any]:
    role = str(message["role"])
    if role == "bashExecution":
        content = f"$ {message.get('command')}\n{message.get('output') or ''}"
    else:
        content = message.get("content", message.get("summary"))
    renamed = {"name": message.get("toolName"), "is_error": message.get("isError")}
    return {**message, "role": _PI_ROLES.get(role, role), "content": content} | {
        key: value for key, value in renamed.items() if value is not None
    }


# -- Letta's trajectories ------------------------------------------------------------------------------


def _is_letta(path: str, event: Event) -> bool:
    return event.get("role") == "meta" and "source" in event


def _letta(events: Sequence[Event]) -> Fields:
    header = events[0] if events else {}
    messages = []
    for event in events[1:]:
        if event.get("role") == "reasoning":  # it comes before the answer that it belongs to
            messages.append({"role": "assistant", "reasoning_content": event.get("content")})
        elif event.get("role") == "assistant" and messages and "content" not in messages[-1]:
            messages[-1] |= event
        else:
            messages.append(dict(event))
    yield "messages", messages
    yield from _labels(header, agent="source", model="model", cwd="cwd", git_branch="git_branch")
    yield from _times(event.get("timestamp") for event in events)


# -- all ---------------------------------------------------------------------------------------------


def _labels(source: Mapping[str, Any], **keys: str) -> Fields:
    yield from ((name, source[key]) for name, key in keys.items() if isinstance(source.get(key), str))


def _times(stamps: Iterable[Any]) -> Fields:
    """Yield the time from the first event to the last; Pi's messages count in milliseconds."""
    seconds = [each / 1000 if isinstance(each, int | float) else unix_seconds(each) for each in stamps]
    known = [each for each in seconds if each is not None]
    if known:
        yield "timing", {"start": min(known), "total": max(known) - min(known)}


def _usage(logged: Iterable[Any], **names: str) -> Fields:
    """Yield the sums of numbers in the usage of all calls of the model."""
    usage = [each for each in logged if isinstance(each, Mapping)]
    for key, name in names.items():
        found = [each[key] for each in usage if isinstance(each.get(key), int | float)]
        if found:
            yield name if name == "tokens" else f"metrics/{name}", sum(found)


def _left_out(**counts: int) -> Fields:
    """Yield how many messages are not shown, by the reason."""
    yield from ((f"{reason}_messages", count) for reason, count in counts.items() if count)


SESSION_FILES = (
    SessionFormat(
        "Claude Code",
        "{session}.jsonl with 'sessionId', 'uuid' and 'message' (Claude Code)",
        _is_claude,
        _claude,
        re.compile(rf"(?<![^/])(?:{_UUID}/subagents/)?[^/]+\.jsonl$"),
    ),
    SessionFormat(
        "Codex",
        "rollout-*.jsonl with 'session_meta' and 'response_item' (Codex)",
        _is_codex,
        _codex,
        re.compile(r"(?<![^/])(?:\d{4}/\d\d/\d\d/)?[^/]+\.jsonl$"),
    ),
    SessionFormat(
        "session trace",
        "*.jsonl whose first line is of the type 'session' (Pi, Hugging Face's session traces)",
        _is_trace,
        _trace,
        re.compile(r"[^/]+\.jsonl$"),
    ),
    SessionFormat(
        "Letta trajectory",
        "*.json with a list of messages, the first of the role 'meta' (Letta)",
        _is_letta,
        _letta,
        re.compile(r"[^/]+$"),
    ),
)


class SessionRows:
    """Adapter of data sets on the Hub: a row holds the events of a session of one of these programs."""

    name = "session traces, rows"
    lacks_steps = True
    looks = "rows with 'harness', 'session_id' and 'traces' (session traces in a data set of the Hub)"

    def accepts(self, path: str, document: Event) -> bool:
        """Return True if a row is a session."""
        return {"harness", "session_id", "traces"} <= document.keys()

    def read(self, document: Event, path: str, *, full: bool) -> list[Record]:
        """Read the session as its program's file is read.

        Raises
        ------
        LineError
            If no program is known that writes such events.
        """
        row = _plain(document)
        logged = [parse_value(each) if isinstance(each, str) else each for each in row["traces"] or ()]
        events = [
            {key: value for key, value in event.items() if value is not None}  # a column that others have
            for event in logged
            if isinstance(event, Mapping)
        ]
        for program in SESSION_FILES:
            if any(program.is_event(path, event) for event in events):
                return program.read({"events": events}, path, full=full)
        raise LineError(f"no known events in a session of {str(row['harness'])[:40]!r}")


SESSIONS = (*SESSION_FILES, SessionRows())
