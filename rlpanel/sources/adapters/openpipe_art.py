"""Reads ``trajectories/{split}/{step}.parquet`` of OpenPipe ART: each step of a split is a file of its own.

A row holds a trajectory as JSON (format version 2): its messages and the model's choices, or else the
requests and responses that ART captured (see `art_histories`). Each of its histories is a sample of the same
episode. A row also holds its group, with the exceptions of the rollouts that failed: each is a sample without
a reward, which the statistics of rewards leave out, as ART's do. Groups are counted from 0 in each file.

Finds the histories of an ART trajectory: conversations, each of which is a training sequence.

A trajectory holds ``messages_and_choices``, and further ones in ``additional_histories``, or else
``exchanges``: the requests to a model that ART captured, with the responses. An exchange whose request goes
on with the messages of an earlier one continues its history; any other begins a new one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rlpanel.errors import LineError
from rlpanel.schema import LABEL_MAX
from rlpanel.sources.records.chat_shapes import chat_messages
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import parse_value, to_python
from rlpanel.sources.records.path_numbers import number_from_name
from rlpanel.sources.records.record_types import Record

#: A chat message, or a choice of the model: ``{"finish_reason", "message", "logprobs"}``.
Item = dict[str, Any]
History = list[Item]
_READ = ("chat_completions", "responses")


def choice_of(item: Item) -> dict[str, Any] | None:
    """Return the message in a choice of the model; None for any other message."""
    message = item.get("message")
    return message if "finish_reason" in item and isinstance(message, dict) else None


def histories_of(trajectory: Mapping[str, Any]) -> list[History]:
    """Return the histories in order; none if nothing was logged, or only exchanges that are not read."""
    logged = [trajectory, *(trajectory.get("additional_histories") or ())]
    histories = [
        _history_items(each.get("messages_and_choices")) for each in logged if isinstance(each, dict)
    ]
    return [history for history in histories if history] or _join_exchanges(trajectory)


def unread_kinds(trajectory: Mapping[str, Any]) -> list[str]:
    """Return the kinds of captured exchanges that are not read."""
    return sorted(kind for kind, logged in _exchanges(trajectory).items() if logged and kind not in _READ)


def _history_items(value: Any) -> History:
    if value is not None and not isinstance(value, list):
        raise LineError("'messages_and_choices' is not a list")
    return [item for item in value or () if isinstance(item, dict)]


def _exchanges(trajectory: Mapping[str, Any]) -> dict[str, Any]:
    value = trajectory.get("exchanges")
    return value if isinstance(value, dict) else {}


def _join_exchanges(trajectory: Mapping[str, Any]) -> list[History]:
    logged = [
        (str(exchange.get("start_time")), kind, exchange)
        for kind in _READ
        for exchange in _exchanges(trajectory).get(kind) or ()
        if isinstance(exchange, dict)
    ]
    histories: list[History] = []
    for _, kind, exchange in sorted(logged, key=lambda each: each[0]):
        request, response = exchange.get("request") or {}, exchange.get("response") or {}
        if kind == "responses":
            _continue(histories, *_response(request, response))
            continue
        asked = _history_items(request.get("messages"))
        for choice in _history_items(response.get("choices")):
            _continue(histories, asked, [choice])
    return histories


def _response(request: Mapping[str, Any], response: Mapping[str, Any]) -> tuple[History, History]:
    """Return what was asked and what was answered in the Responses API, as chat messages."""
    told = request.get("instructions")
    asked = [
        *([{"role": "system", "content": told}] if told else []),
        *chat_messages(request.get("input") or []),
    ]
    reason = (response.get("incomplete_details") or {}).get("reason")
    finish = "length" if reason == "max_output_tokens" else reason or "stop"
    answers = chat_messages(response.get("output") or [])
    return asked, [{"finish_reason": finish, "message": answer} for answer in answers]


def _continue(histories: list[History], asked: History, answers: History) -> None:
    """Add an exchange to the newest history that its request continues, or as a new one."""
    for history in reversed(histories):
        messages = [choice_of(item) or item for item in history]
        if len(messages) <= len(asked) and all(map(_is_same, messages, asked)):
            history += [*asked[len(messages) :], *answers]
            return
    histories.append([*asked, *answers])


def _is_same(earlier: Item, later: Item) -> bool:
    """Return True for a message that is repeated, with or without keys that hold nothing."""
    return all((earlier.get(key) or None) == (later.get(key) or None) for key in ("role", "content"))


#: The version of the format that is read.
_VERSION = 2
_FILE = re.compile(r"(?:^|/)trajectories/([^/]+)/\d+\.parquet$")
#: Splits that are not evaluations, and those whose groups keep their number.
_SPLITS, _PLAIN = frozenset({"train", "discarded"}), frozenset({"train", "val"})
_CLASS = re.compile(r"^<class '(.*)'>$")
_TOKEN_ID = re.compile(r"token_id:(\d{1,15})")

Fields = Iterator[tuple[str, Any]]


@dataclass(frozen=True)
class OpenPipeArt:
    """Adapter for ART's trajectories.

    Attributes
    ----------
    split : str
        ART's name of the split, which only the file's folder says.
    """

    split: str = "train"
    looks = "trajectories/{split}/{step}.parquet with 'group_index', 'trajectory_json' (OpenPipe ART)"
    path_in_run = re.compile(r"(?<![^/])trajectories/[^/]+/\d+\.parquet$")

    @property
    def name(self) -> str:
        """Name that is unique for this split."""
        return f"OpenPipe ART, {self.split}"

    def of_file(self, path: str) -> OpenPipeArt:
        """Return the adapter of a file, by its whole path: a run may be opened at any of its folders."""
        match = _FILE.search(path)
        return OpenPipeArt(match[1]) if match else self

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the row has the keys of a trajectory, in a file that is named after its step."""
        keys = {"format_version", "group_index", "group_json"}
        return keys <= document.keys() and number_from_name(path) is not None

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read a row's samples: the trajectory's histories, and beside its first one the group's failures."""
        row = {key: to_python(value) for key, value in document.items()}
        if row.get("format_version") != _VERSION:
            raise LineError(f"'format_version' is {row.get('format_version')}; only {_VERSION} is read")
        step = number_from_name(path)
        if step is None:
            raise LineError("the file's name contains no step")
        group = _object(row, "group_json")
        shared = list(self._group_fields(row, group))
        records = []
        if row.get("trajectory_json") is not None:
            trajectory = _object(row, "trajectory_json")
            own = [*shared, *_trajectory_fields(row, trajectory)]
            own.append(("episode", f"{dict(shared)['group']}-{row.get('trajectory_index')}"))
            histories = histories_of(trajectory) or [[]]
            records = [
                build_record(step, [*own, *_history_fields(each)], path, full=full) for each in histories
            ]
            unread = unread_kinds(trajectory)
            records[0].notes += [f"exchanges of the kind {kind!r} are not read" for kind in unread]
        if not row.get("trajectory_index"):
            failures = ([*shared, *_failure(each)] for each in group.get("exceptions") or ())
            records += [build_record(step, fields, path, full=full) for fields in failures]
        return records

    def _group_fields(self, row: Mapping[str, Any], group: Mapping[str, Any]) -> Fields:
        yield "split", self.split if self.split in _SPLITS else "eval"
        index = str(row.get("group_index"))
        yield "group", index if self.split in _PLAIN else f"{self.split}:{index}"
        for part in ("metrics", "metadata"):
            for key, value in _items(group, part):
                yield f"group_{part}/{key}", value


def _object(row: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object in a row's JSON text; LineError if the text is not one."""
    value = parse_value(str(row.get(key)))
    if not isinstance(value, dict):
        raise LineError(f"{key!r} is not a JSON object")
    return value


def _items(document: Mapping[str, Any], key: str) -> list[tuple[str, Any]]:
    value = document.get(key)
    return list(value.items()) if isinstance(value, dict) else []


def _trajectory_fields(row: Mapping[str, Any], trajectory: Mapping[str, Any]) -> Fields:
    """Yield the fields that all histories of a trajectory share."""
    yield "reward", row.get("reward")
    versions = [trajectory.get(f"{end}_policy_version") for end in ("initial", "final")]
    if any(version is not None for version in versions):
        yield "policy_version", [version for version in versions if version is not None]
    for part in ("metrics", "metadata"):
        for key, value in _items(trajectory, part):
            yield f"{part}/{key}", value
    if trajectory.get("logs"):
        yield "logs", trajectory["logs"]


def _failure(exception: Any) -> Fields:
    """Yield the fields of a rollout that raised an exception."""
    details = exception if isinstance(exception, dict) else {"message": exception}
    kind = _CLASS.sub(r"\1", str(details.get("type") or ""))
    yield "status", "environment_error"
    yield "status_reason", ": ".join(filter(None, (kind, str(details.get("message") or ""))))[:LABEL_MAX]


def _history_fields(history: History) -> Fields:
    messages = [choice_of(item) or item for item in history]
    choices = [item for item in history if choice_of(item) is not None]
    if messages:
        yield "messages", messages
    if not choices:
        return
    yield "prompt_messages", next(at for at, item in enumerate(history) if choice_of(item) is not None)
    reason = choices[-1].get("finish_reason")
    if reason is not None:
        yield "finish_reason", reason
        yield "truncated", int(reason == "length")
        yield "status", "truncated" if reason == "length" else "ok"
    yield from _tokens(choices)


def _tokens(choices: list[Item]) -> Fields:
    """Yield the sampled tokens of all choices with the engine's logprobs, if all choices have them."""
    logged = [each if isinstance(each := choice.get("logprobs"), dict) else {} for choice in choices]
    parts = [part for each in logged if isinstance(part := each.get("content"), list) and part]
    if len(parts) < len(choices):
        return
    tokens = [token for part in parts for token in part]
    yield "rollout_logprobs", [token.get("logprob") for token in tokens]
    names = [str(token.get("token")) for token in tokens]
    ids = [_TOKEN_ID.fullmatch(name) for name in names]
    if all(ids):
        yield "response_token_ids", [int(match[1]) for match in ids if match]
    else:
        yield "response_tokens", names
