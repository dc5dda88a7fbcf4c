"""`infer`: decides from a sample of records which key holds which field.

Names (`aliases`) and values (`content`) decide together. A ground truth is not taken for the response while
another key can be it. Data sets, and chats without rewards, are not rollouts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from rlpanel.sources.adapters.key_mapping import MappedAdapter
from rlpanel.sources.inference import content
from rlpanel.sources.inference.aliases import GRADES, SAMPLING, NameMatch, fields_of, plain_name, read_name
from rlpanel.sources.inference.inference import LEAST, Guess, Inference
from rlpanel.sources.records.path_numbers import step_from_path

#: Records that are looked at.
SAMPLE = 20
#: Least share of the records that have a key, and of its values that fit.
_LEAST_PRESENT, _LEAST_FIT = 0.3, 0.7
#: Two keys whose confidences differ by less are about equal.
_EQUAL = 0.03
#: Confidence in a conversation, and in a reward, that only their values show.
_BY_CONTENT = {"messages": 0.7, "reward": 0.52}
#: From this group of names on, a key is a response only beside a reward.
_UNSURE = 3
#: Loss of confidence for an id or a counter, and for texts of few characters.
_UNLIKELY = 0.4
#: Words of a key whose numbers are not rewards.
_NOT_REWARDS = frozenset(
    {"id", "idx", "index", "step", "epoch", "turn", "turns", "rank", "seed", "port", "level", "rating"}
    | {"count", "num", "len", "length", "tokens", "chars", "size", "n", "k", "max", "min", "top", "version"}
    | {"time", "timestamp", "date", "year", "seconds", "ms", "latency", "duration", "cost", "price"}
    | {"temperature"}
)
#: Names of files that hold what policies wrote, even without rewards: conversations, and texts.
_NAMED_TRAJECTORIES = re.compile(r"rollouts?(?![a-z])|trajector(?:y|ies)|episodes?(?![a-z])")
_NAMED_SAMPLES = re.compile(rf"{_NAMED_TRAJECTORIES.pattern}|generations?(?![a-z])|completions?(?![a-z])")
#: Keys whose records are the turns of an episode.
_EPISODES = ("episode", "episode_id", "trajectory_id", "traj_id")


class _Column(NamedTuple):
    """The values of a key in the records that have it, and the number of all records."""

    key: str
    values: list[Any]
    records: int

    @property
    def present(self) -> float:
        return len(self.values) / self.records


class _Candidate(NamedTuple):
    guess: Guess
    match: NameMatch


_SURE = NameMatch(1.0, 0, 0, "")


_Test = tuple[Callable[[Any], bool], str]
_LISTS: _Test = (content.is_number_list, "lists of numbers")
_LABELS: _Test = (content.is_label, "short texts or numbers")
#: Field → test of a value, and what such values are called. The fields take their keys in this order.
_TESTS: dict[str, _Test] = {
    "messages": (content.holds_answer, "conversations"),
    "response": (content.is_text, "texts"),
    "prompt": (content.is_text, "texts"),
    "reward": (content.is_reward, "numbers"),
    "rewards": (content.is_parts, "objects of numbers"),
    "ground_truth": (lambda value: value != "", "values"),
    "step": (content.is_step, "whole numbers"),
    "group": _LABELS,
    "response_token_ids": (content.is_id_list, "lists of whole numbers"),
    "response_tokens": (content.is_text_list, "lists of texts"),
    **dict.fromkeys(("logprobs", "old_logprobs", "ref_logprobs", "rollout_logprobs", "loss_mask"), _LISTS),
    "advantage": (lambda value: content.is_reward(value) or content.is_number_list(value), "numbers"),
    "truncated": (content.is_reward, "numbers"),
    **dict.fromkeys(("finish_reason", "status", "split"), _LABELS),
}

#: The order in which guesses are shown; the others follow.
_FIRST = ("prompt", "response", "messages", "reward")


def infer(
    records: Sequence[Mapping[str, Any]], path: str = "", mapped: MappedAdapter | None = None
) -> Inference:
    """Infer the fields of the records of a file; the same arguments give the same result.

    Parameters
    ----------
    records : sequence of mapping
        Parsed lines; the first 20 count.
    path : str
        The file's path below its run, which may name a step.
    mapped : MappedAdapter, optional
        What the user says about the keys; the rest is inferred.
    """
    sample = [content.values_by_path(record) for record in records[:SAMPLE]]
    found = _Fields(_columns(sample), mapped, path)
    guesses = {
        meaning: found.taken[meaning].guess for meaning in (*_FIRST, *found.taken) if meaning in found.taken
    }
    constant = step_from_path(path) if mapped is None or mapped.step is None else mapped.step
    is_run = found.are_rollouts()
    equal_keys = found.equal_keys() if is_run else ()
    return Inference(
        tuple(guesses.values()),
        len(records),
        None if "step" in guesses else constant or 0,
        tuple(_missing(guesses, has_step=constant is not None)),
        equal_keys,
        is_run and not equal_keys,
        tuple(dict.fromkeys(key for record in records[:SAMPLE] for key in record)),
    )


def _missing(guesses: Mapping[str, Guess], *, has_step: bool) -> Iterator[str]:
    """Yield the names of what rollouts have and these records lack."""
    if not {"messages", "response"} & guesses.keys():
        yield "response"
    if "reward" not in guesses:
        yield "reward"
    if not {"messages", "prompt"} & guesses.keys():
        yield "prompt"
    if "step" not in guesses and not has_step:
        yield "step"


def _columns(sample: Sequence[Mapping[str, Any]]) -> list[_Column]:
    values: dict[str, list[Any]] = {}
    for record in sample:
        for key, value in record.items():
            values.setdefault(key, []).append(value)
    columns = [_Column(key, each, len(sample)) for key, each in values.items()]
    return [column for column in columns if column.present >= _LEAST_PRESENT]


class _Fields:
    """Gives each field its key, one field after the other.

    Parameters
    ----------
    columns : list of _Column
    mapped : MappedAdapter or None
        Fields and keys that the user named.
    path : str
        The file's path, whose name may say that it holds samples.
    """

    def __init__(self, columns: list[_Column], mapped: MappedAdapter | None, path: str = "") -> None:
        self._name = path.rpartition("/")[2].lower()
        self._columns = {column.key: column for column in columns}
        self._whole = _whole_texts(columns)
        self._named = dict(mapped.keys) if mapped is not None else {}
        self.taken = {
            meaning: _Candidate(Guess(meaning, key, 1.0, "named by --map"), _SURE)
            for meaning, key in self._named.items()
        }
        by_meaning: dict[str, list[_Column]] = {}
        unnamed: list[_Column] = []
        for column in columns:
            fields = fields_of(column.key)
            for meaning in fields:
                by_meaning.setdefault(meaning, []).append(column)
            if not fields:
                unnamed.append(column)
        for meaning, test in _TESTS.items():
            if meaning in self.taken:
                continue
            if meaning == "ground_truth":
                self._give_up_unsure_response()
            # A conversation without an answer is a prompt.
            named = [
                *by_meaning.get(meaning, ()),
                *(by_meaning.get("messages", ()) if meaning == "prompt" else ()),
            ]
            free = [column for column in named if self._is_free(meaning, column.key)]
            found = [self._candidate(meaning, column, test) for column in free]
            if any(found):
                self._take([candidate for candidate in found if candidate is not None])
            elif meaning in _BY_CONTENT:
                self._take_by_content(meaning, unnamed)

    def are_rollouts(self) -> bool:
        """Return True if the records are samples of a policy, not a data set or a chat."""
        if any(self._named.get(name) in self._columns for name in ("prompt", "response", "messages")):
            return True  # the user says so
        answer = self.taken.get("response") or self.taken.get("messages")
        if answer is None or answer.guess.confidence < LEAST:
            return False
        reward, prompt = self.taken.get("reward"), self.taken.get("prompt")
        is_sampled = "step" in self.taken or self._has_sampling_keys()
        if "response" not in self.taken:
            return reward is not None or _NAMED_TRAJECTORIES.search(self._name) is not None
        group = answer.match.group
        if reward is not None and reward.guess.confidence >= LEAST:
            # A name that other logs use as well needs a question beside it.
            asked = prompt is not None and prompt.match.group < 3
            return asked or group == 0 or (group == 1 and (is_sampled or "group" in self.taken))
        is_named = _NAMED_SAMPLES.search(self._name) is not None
        return (is_named and group < 2) or (
            is_sampled and (group == 0 or (group == 1 and self._is_generated()))
        )

    def equal_keys(self) -> tuple[str, ...]:
        """Return the keys of a decisive field that are about equally likely and hold other values."""
        for meaning in ("response", "reward"):
            candidate = self.taken.get(meaning)
            beside = meaning == "response" and "messages" in self.taken
            if candidate is None or meaning in self._named or beside:
                continue
            guess = candidate.guess
            close = [key for key, confidence in guess.others if guess.confidence - confidence < _EQUAL]
            different = [key for key in close if self._differ(guess.key, key)]
            if different:
                return guess.key, *different
        return ()

    def _is_free(self, meaning: str, key: str) -> bool:
        """Return True if no field has taken the key, or an object around it."""
        if meaning == "response" and key in self._whole:
            return False
        taken = [candidate.guess.key for candidate in self.taken.values()]
        return not any(key == other or key.startswith(f"{other}.") for other in taken)

    def _give_up_unsure_response(self) -> None:
        """Let the ground truth have a key such as ``answer``, if no reward says that it was scored."""
        answer = self.taken.get("response")
        if answer is not None and answer.match.group >= _UNSURE and "reward" not in self.taken:
            del self.taken["response"]

    def _take(self, found: list[_Candidate]) -> None:
        found.sort(key=lambda each: (-each.guess.confidence, each.guess.key.count("."), each.match.rank))
        best, *others = found
        next_best = tuple((other.guess.key, round(other.guess.confidence, 2)) for other in others[:3])
        self.taken[best.guess.meaning] = best._replace(guess=replace(best.guess, others=next_best))

    def _take_by_content(self, meaning: str, unnamed: list[_Column]) -> None:
        """Take the only key whose values are like the field's, if no field has its name."""
        if meaning == "reward" and not self._has_sure_answer():
            return
        test, what = _TESTS[meaning]
        fits = _is_like_reward if meaning == "reward" else _is_like_messages
        found = [column for column in unnamed if fits(column) and content.share(test, column.values) == 1.0]
        found = [column for column in found if self._is_free(meaning, column.key)]
        if len(found) != 1:
            return
        reason = f"the only key with {what}"
        guess = Guess(meaning, found[0].key, _BY_CONTENT[meaning], reason)
        self.taken[meaning] = _Candidate(guess, NameMatch(guess.confidence, 3, 0, ""))

    def _has_sure_answer(self) -> bool:
        answer = self.taken.get("response") or self.taken.get("messages")
        return answer is not None and answer.match.group < 2

    def _candidate(self, meaning: str, column: _Column, test: _Test) -> _Candidate | None:
        """Return the guess that a key holds a field; None if its name or its values are against it."""
        match = read_name(meaning, column.key)
        if meaning == "prompt" and not match.confidence and _is_like_messages(column):
            match = read_name("messages", column.key)  # a conversation without an answer
        if not match.confidence or self._is_beside_messages(meaning, match):
            return None
        fits, what = test
        fit = content.share(fits, column.values)
        if fit < _LEAST_FIT or not self._suits(meaning, column, match):
            return None
        confidence = match.confidence - 0.5 * (1.0 - fit) - 0.1 * (1.0 - column.present)
        confidence -= _UNLIKELY if meaning == "reward" and _counts(column) else 0.0
        reason = f"{100 * fit * column.present:.0f} % of the records are {what}"
        reason += f" (named so by {match.source})" if match.source else ""
        return _Candidate(Guess(meaning, column.key, round(max(confidence, 0.0), 2), reason), match)

    def _is_beside_messages(self, meaning: str, match: NameMatch) -> bool:
        """Return True for a text that the conversation holds anyway; only sure names count beside it."""
        is_sure = match.confidence >= GRADES[0]
        return "messages" in self.taken and meaning in ("prompt", "response") and not is_sure

    def _suits(self, meaning: str, column: _Column, match: NameMatch) -> bool:
        """Return True unless a key's values contradict those of the fields found before."""
        if meaning == "prompt":
            return not plain_name(column.key).rpartition(".")[2].startswith("system")
        if meaning == "response":
            return match.group < _UNSURE or "." not in column.key  # `doc.answer` is part of the task
        if meaning == "reward":
            return self._is_one_per_response(column)
        if meaning == "step":
            return not self._counts_turns(column)
        if meaning == "group":
            values = list(map(str, column.values))
            return len(set(values)) < len(values) or "prompt" not in self.taken or self._has_groups()
        return True

    def _is_one_per_response(self, column: _Column) -> bool:
        """Return True if a record has as many values as responses."""
        answer = self.taken.get("response")
        lengths = {len(content.items_of(value)) for value in column.values}
        if answer is None or lengths == {1} or answer.guess.key not in self._columns:
            return lengths == {1}
        responses = self._columns[answer.guess.key].values
        return [*map(_item_count, column.values)] == [*map(_item_count, responses)]

    def _has_groups(self) -> bool:
        """Return True if a record holds several responses."""
        answer = self.taken.get("response")
        column = self._columns.get(answer.guess.key) if answer is not None else None
        return column is not None and any(_item_count(value) > 1 for value in column.values)

    def _counts_turns(self, column: _Column) -> bool:
        """Return True if a number rises by one within each episode: it is the turn, not the update."""
        episodes = next((self._columns[key].values for key in _EPISODES if key in self._columns), None)
        if episodes is None or len(episodes) != len(column.values):
            return False
        both = zip(map(str, episodes), column.values, strict=True)
        runs = [[turn for _, turn in run] for _, run in groupby(both, key=lambda pair: pair[0])]
        return any(len(run) > 1 for run in runs) and all(
            all(
                content.as_number(after) == (content.as_number(before) or 0.0) + 1
                for before, after in pairwise(run)
            )
            for run in runs
        )

    def _differ(self, key: str, other: str) -> bool:
        return self._columns[key].values != self._columns[other].values

    def _has_sampling_keys(self) -> bool:
        lists = {"logprobs", "response_token_ids", "response_tokens"} & self.taken.keys()
        return bool(lists) or any(plain_name(key) in SAMPLING for key in self._columns)

    def _is_generated(self) -> bool:
        """Return True if something says that a model wrote the texts."""
        names = {plain_name(key) for key in self._columns}
        sure = {"generator", "finish_reason", "stop_reason", "rollout_id", "sample_idx", "sample_index"}
        return "step" in self.taken or "logprobs" in self.taken or bool(names & sure)


def _item_count(value: Any) -> int:
    return len(content.items_of(value))


def _counts(column: _Column) -> bool:
    numbers = [content.as_number(value) for value in column.values]
    return content.is_counter([number for number in numbers if number is not None])


def _is_like_reward(column: _Column) -> bool:
    """Return True for differing small numbers under a key that does not name an id, a length or a time."""
    words = set(plain_name(column.key).replace(".", "_").split("_"))
    numbers = [number for value in column.values for number in content.numbers_of(value)]
    is_small = all(abs(number) <= 100 for number in numbers) and len(set(numbers)) > 1
    return is_small and "." not in column.key and not words & _NOT_REWARDS and not content.is_counter(numbers)


def _is_like_messages(column: _Column) -> bool:
    return content.share(content.is_conversation, column.values) == 1.0


def _whole_texts(columns: list[_Column]) -> set[str]:
    """Return keys whose texts begin with those of one other key and end with those of another one."""
    texts = {
        column.key: column.values
        for column in columns
        if column.present == 1.0
        and {"prompt", "response"} & fields_of(column.key).keys()
        and all(isinstance(value, str) and value for value in column.values)
    }

    def relates(key: str, test: Callable[[str, str], bool]) -> set[str]:
        return {
            other
            for other, values in texts.items()
            if other != key
            and all(len(b) < len(a) and test(a, b) for a, b in zip(texts[key], values, strict=True))
        }

    return {
        key
        for key in texts
        if (ends := relates(key, str.endswith))
        and (starts := relates(key, str.startswith))
        and ends != starts
    }
