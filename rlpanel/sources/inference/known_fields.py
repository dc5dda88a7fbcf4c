"""The fields that have a key so far, and questions about them."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from rlpanel.sources.adapters.key_mapping import MappedAdapter
from rlpanel.sources.inference import content
from rlpanel.sources.inference.aliases import GRADES, SAMPLING, NameMatch, plain_name
from rlpanel.sources.inference.column_values import is_or_ends, is_plan, item_count
from rlpanel.sources.inference.episode_steps import answers_in
from rlpanel.sources.inference.inference import Guess
from rlpanel.sources.inference.key_values import KeyValues, fields_of_keys
from rlpanel.sources.inference.model_names import names_model
from rlpanel.sources.inference.request_status import NO_REQUESTS, RequestStatus

#: From this group of names on, a key is a response only beside a reward.
UNSURE = 3
#: Least share of a key's values that fit a field.
MIN_FIT = 0.7
#: Confidence in a conversation, a list of responses, and a reward, that only their values show.
BY_CONTENT = {"messages": 0.7, "response": 0.6, "reward": 0.52}
#: Keys that only a text which a model wrote has beside it.
_GENERATED = frozenset(
    {"generator", "finish_reason", "stop_reason", "rollout_id", "sample_idx", "sample_index", "model_id"}
    | {"reviewer_id"}
    | {"model_name_or_path", "output_token_count", "completion_tokens", "output_tokens"}
)
SURE, NONE = NameMatch(1.0, 0, 0, ""), NameMatch(0.0, len(GRADES), 0, "")


#: Keys that an API writes beside the text of a model.
_CALL_KEY = re.compile(r"finish_reason|stop_reason|completion_tokens")
#: Keys that count what a policy did before its answer.
_STEP_COUNT = re.compile(r"(?:total|num|n)_(?:steps|turns|calls|tool_calls|actions)|(?:step|turn)_count")
#: Keys of a model's name, and of settings that only the sampling of a text has.
_MODEL_KEYS = ("model", "model_name", "model_id")
_SETTINGS = frozenset({"temperature", "top_p", "max_tokens", "max_new_tokens", "sampling_params"})
#: Keys of the tokens that a model wrote.
_USED_TOKENS = frozenset({"completion_tokens", "output_tokens"})


def _names_model(value: Any) -> bool:
    return isinstance(value, str) and names_model(value)


def _are_models(values: list[Any]) -> bool:
    """Return True for names of models: ``gpt-4``, or an owner and a name as on the Hugging Face Hub."""
    return all(isinstance(value, str) and (names_model(value) or value.count("/") == 1) for value in values)


class FieldCandidate(NamedTuple):
    """A guess, and how well the name of its key fits."""

    guess: Guess
    match: NameMatch


class KnownFields:
    """The keys that fields have so far, with all columns of the records.

    Parameters
    ----------
    columns : list of KeyValues
    mapped : MappedAdapter or None
        Fields and keys that the user named.
    path : str
        The file's path, whose name may say that it holds samples.
    around : str
        Keys around the records in their document, which may name models.
    requests : RequestStatus
        Keys that hold the status of a request.

    Attributes
    ----------
    taken : dict
        Field → its key.
    doubts : list of str
        Sentences on keys that have a field's name and not its values.
    """

    def __init__(
        self,
        columns: list[KeyValues],
        mapped: MappedAdapter | None,
        path: str = "",
        around: str = "",
        requests: RequestStatus = NO_REQUESTS,
    ) -> None:
        self._requests = requests
        self._name = f"{around} {path.rpartition('/')[2]}".lower()
        self.doubts: list[str] = []
        self._columns = {column.key: column for column in columns}
        self._names = fields_of_keys(columns)
        self._named = dict(mapped.keys) if mapped is not None else {}
        self._rewards = [column for column in columns if "reward" in self._names[column.key]]
        self.taken = {
            meaning: FieldCandidate(Guess(meaning, key, 1.0, "named by --map"), SURE)
            for meaning, key in self._named.items()
        }

    def _differ(self, key: str, other: str) -> bool:
        one, two = (
            [content.items_of(value) for value in self._columns[each].values] for each in (key, other)
        )
        return one != two

    def _hold_one_another(self, key: str, other: str) -> bool:
        """Return True if each text of one key is contained in the other key's, as code in an answer is."""
        pairs = list(zip(self._columns[key].values, self._columns[other].values, strict=False))
        if not all(isinstance(each, str) and each.strip() for pair in pairs for each in pair):
            return False
        is_whole = len(self._columns[key].values) == len(self._columns[other].values)
        return is_whole and (
            all(one.strip() in two for one, two in pairs) or all(two.strip() in one for one, two in pairs)
        )

    def _has_sampling_keys(self) -> bool:
        lists = {"logprobs", "response_token_ids", "response_tokens"} & self.taken.keys()
        names = map(plain_name, self._columns)
        return bool(lists) or any(is_or_ends(name, SAMPLING) for name in names)

    def _is_generated(self) -> bool:
        """Return True if something says that a model wrote the texts."""
        names = {plain_name(key) for key in self._columns}
        named = any(is_or_ends(name, _GENERATED) for name in names)
        return "step" in self.taken or "logprobs" in self.taken or named or self._is_choice()

    def _is_choice(self) -> bool:
        """Return True if the answer is one of an API's choices."""
        answer = self.taken.get("response") or self.taken.get("messages")
        return answer is not None and "choices." in answer.guess.key

    def _is_call(self) -> bool:
        """Return True if records are calls of a model: they name it, or say why the text ended."""
        return any(
            (_CALL_KEY.fullmatch(plain_name(key).rpartition(".")[2]) is not None and "." in key)
            or (plain_name(key) in _MODEL_KEYS and _are_models(column.values))
            for key, column in self._columns.items()
        )

    def _is_sampled_call(self) -> bool:
        """Return True if each record has a model's name and the settings with which its text was sampled."""
        names = {plain_name(key) for key in self._columns}
        return not names.isdisjoint(_SETTINGS) and any(
            plain_name(key) in _MODEL_KEYS and all(map(_names_model, column.values))
            for key, column in self._columns.items()
        )

    def _is_model_called(self) -> bool:
        """Return True if a model's tokens are counted, or its name and settings are logged, at any depth."""
        names = {plain_name(key).rpartition(".")[2] for key in self._columns}
        is_named = not names.isdisjoint({*_MODEL_KEYS, "model_path", "model_name_or_path", "adapter"})
        return (is_named and not names.isdisjoint(_SETTINGS)) or not names.isdisjoint(_USED_TOKENS)

    def _is_model_named(self) -> bool:
        """Return True if each record names the model that wrote its text."""
        names = {plain_name(key) for key in self._columns}
        return not names.isdisjoint(
            {"model_id", "model", "model_name", "model_name_or_path", "generator", "reviewer_id"}
        )

    def _has_groups(self) -> bool:
        """Return True if a record holds several responses."""
        answer = self.taken.get("response") or self.taken.get("messages")
        column = self._columns.get(answer.guess.key) if answer is not None else None
        if column is None or is_plan(column) or ("response" not in self.taken and self._has_steps()):
            return False
        return any(item_count(value) > 1 for value in column.values)

    def _counts_steps(self, key: str) -> bool:
        """Return True for a final answer inside of an object that counts the steps to it."""
        outer, _, name = key.rpartition(".")
        if not outer or "final" not in plain_name(name).split("_"):
            return False
        return any(
            each.rpartition(".")[0] == outer
            and _STEP_COUNT.fullmatch(plain_name(each.rpartition(".")[2])) is not None
            and all(type(value) is int for value in column.values)
            for each, column in self._columns.items()
        )

    def _counts_tokens(self, key: str) -> bool:
        """Return True for a text beside the tokens of its completion: ``rewrite_completion_tokens``."""
        stem = plain_name(key).rpartition("_")[0]
        return bool(stem) and "." not in key and f"{stem}_completion_tokens" in map(plain_name, self._columns)

    def _has_ground_truth(self) -> bool:
        """Return True if a key has the name of a ground truth, whatever field takes it."""
        return any("ground_truth" in fields for fields in self._names.values())

    def _has_sure_answer(self) -> bool:
        answer = self.taken.get("response") or self.taken.get("messages")
        return answer is not None and answer.match.group < 2

    def _has_steps(self) -> bool:
        """Return True if the conversation is made of an episode's steps, which do not hold the task."""
        key = self.taken["messages"].guess.key
        column = self._columns.get(key)
        return column is not None and answers_in(key, column.values[0]) is not None

    def _asks_otherwise(self) -> bool:
        """Return True if another key has the word question in its name."""
        return any("question" in plain_name(key).split("_") for key in self._columns)
