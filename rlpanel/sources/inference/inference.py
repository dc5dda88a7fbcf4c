"""Result of an inference: the key of each field with its reason, and the fields that are known so far."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rlpanel.sources.adapters.key_mapping import MappedAdapter, value_at
from rlpanel.sources.inference import content
from rlpanel.sources.inference.aliases import GRADES, SAMPLING, NameMatch, names_model, plain_name
from rlpanel.sources.inference.column_values import KeyValues, fields_of_keys, is_or_ends, is_plan, item_count
from rlpanel.sources.inference.content import as_reward
from rlpanel.sources.inference.episode_steps import action_text, answers_in
from rlpanel.sources.inference.unrelated_scores import NO_REQUESTS, RequestStatus
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.path_numbers import said_step, step_from_path
from rlpanel.sources.records.record_types import Adapter

# -- inference -----------------------------------------------------------------------------------------
# Result of an inference: the key of each field, its confidence and its reason.
#
# `InferredAdapter` reads a file so. Its name holds the keys: a stored index is read anew if they change.


#: Fields that decide whether a file holds rollouts.
DECISIVE = ("messages", "response", "reward")
#: Least confidence in a decisive field with which a file is opened.
MIN_CONFIDENCE = 0.5
ONLY_TEXT = "the only long texts of a model's call"
UNEQUAL = "has several texts, but not one for each response"
COUNTS_RESPONSES = "it counts several responses"
NOT_REWARD = "is not the reward"
NO_STEP = "no step: all samples are step 0"


@dataclass(frozen=True)
class Guess:
    """The key that holds a field.

    Attributes
    ----------
    meaning : str
        rlpanel's name of the field.
    key : str
        Key in the records; dots enter objects and lists.
    confidence : float
        From 0 to 1.
    reason : str
        What the values under the key are, with numbers.
    others : tuple of (str, float)
        The next best keys with their confidence.
    """

    meaning: str
    key: str
    confidence: float
    reason: str
    others: tuple[tuple[str, float], ...] = ()

    @property
    def sentence(self) -> str:
        """The guess with its reason: ``reward ← score.value, 98 % of the records are numbers``."""
        return f"{self.meaning} ← {self.key}, {self.reason}"


@dataclass(frozen=True)
class Inference:
    """Result of `infer`.

    Attributes
    ----------
    guesses : tuple of Guess
        One per field that was found.
    count : int
        Number of records.
    step : int or None
        Step of all records, from the file's path, or 0 if nothing names one; None if the records have a step.
    missing : tuple of str
        What rollouts have and these records lack: ``response``, ``reward``, ``prompt``, ``step``. The path
        may name the step.
    equal_keys : tuple of str
        Keys that are about equally likely for a decisive field; empty if it is decided.
    is_run : bool
        Whether the records are rollouts: other files are not opened.
    of_objects : bool
        Whether the samples are the values of an object in a document.
    likely : str
        Key that may hold the response if none has its name or its values; it is proposed, never read.
    top_keys : tuple of str
        Keys of the records, in their order.
    is_one : bool
        Whether the file is one sample: then a number in its name may count samples.
    doubts : tuple of str
        Sentences on keys that have a field's name and not its values.
    """

    guesses: tuple[Guess, ...]
    count: int
    step: int | None
    missing: tuple[str, ...]
    equal_keys: tuple[str, ...] = ()
    is_run: bool = False
    of_objects: bool = False
    likely: str = ""
    top_keys: tuple[str, ...] = ()
    is_one: bool = False
    doubts: tuple[str, ...] = ()

    @property
    def keys(self) -> dict[str, str]:
        """The key of each field by rlpanel's name."""
        return {guess.meaning: guess.key for guess in self.guesses}

    @property
    def confidence(self) -> float:
        """Confidence in the least sure field that decides whether these are rollouts; 0 without one."""
        return min((guess.confidence for guess in self.guesses if guess.meaning in DECISIVE), default=0.0)

    @property
    def equal(self) -> bool:
        """True if two readings are about equal, so that nothing is opened."""
        return bool(self.equal_keys)

    @property
    def renamed(self) -> list[tuple[str, str]]:
        """Pairs of a field and its key, without those that have rlpanel's name."""
        return [(name, key) for name, key in self.keys.items() if name != key]

    @property
    def mapping(self) -> str:
        """Value of ``--map`` that reads the records so; keys that rlpanel knows anyway are left out."""
        pairs = [f"response={self.likely}"] if self.likely else []
        named = [key for _, key in self.renamed]  # a key that two fields share is named for both
        pairs += [
            f"{name}={key}"
            for name, key in self.keys.items()
            if (name != key or key in named) and key != self.likely
        ]
        return ",".join(pairs + ([f"step={self.step}"] if "step" in self.missing else []))

    @property
    def problem(self) -> str:
        """Reason why the records are not opened as rollouts; empty if they are."""
        if self.is_run:
            return ""
        if self.equal_keys:
            return f"two readings are about equal: {' or '.join(self.equal_keys)}"
        if "response" in self.missing:
            return "no key holds a response"
        if unequal := [doubt for doubt in self.doubts if doubt.endswith(UNEQUAL)]:
            return unequal[0]
        if "reward" in self.missing:
            if refused := [doubt for doubt in self.doubts if NOT_REWARD in doubt]:
                return f"{refused[0]}, and nothing else shows that a policy wrote the texts"
            return "no reward, and nothing shows that a policy wrote the texts"
        return "the names of the keys do not show that these are rollouts"

    def adapter(self) -> InferredAdapter:
        """Return the adapter that reads the records so."""
        return InferredAdapter(tuple(self.keys.items()), self.step, is_one=self.is_one, inference=self)

    def sentence(self) -> str:
        """Return what was guessed, in one sentence: ``fields were guessed: response ← completion``."""
        pairs = [f"{name} ← {key}" for name, key in self.renamed]
        said = f"fields were guessed: {', '.join(pairs)}" if pairs else ""
        return "; ".join(filter(None, (said, *self.doubts, NO_STEP if "step" in self.missing else "")))


@dataclass(frozen=True)
class InferredAdapter(MappedAdapter):
    """Adapter for inferred keys; ``step`` is for lines and files that name none.

    Attributes
    ----------
    is_one : bool
        Whether a file is one sample: then its number is a step only if the name says so.
    inference : Inference or None
        What the keys follow from.
    """

    is_one: bool = False
    inference: Inference | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """Unique name of this inference."""
        return f"inferred: {super().name}{', one sample a file' if self.is_one else ''}"

    def _is_columnar(self, document: Mapping[str, Any]) -> bool:
        keys = dict(self.keys)
        steps = "messages" in keys and answers_in(keys["messages"], value_at(document, keys["messages"]))
        return not steps and super()._is_columnar(document)

    def _fields(self, document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield the fields; actions become messages or texts, and verdicts numbers."""
        keys = dict(self.keys)
        conversation = to_python(value_at(document, keys["messages"])) if "messages" in keys else None
        steps = answers_in(keys.get("messages", ""), conversation)
        for name, value in super()._fields(document):
            plain = to_python(value)
            if name == "prompt" and steps:
                steps = [{"role": "user", "content": action_text(plain)}, *steps]
            elif name == "messages" and steps:
                yield name, steps
                yield f"logged_{name}", plain
            elif name == "reward" and isinstance(plain, str):
                yield name, as_reward(plain)
            else:
                yield name, value

    def _step(self, document: Mapping[str, Any], path: str) -> Any:
        logged = self._logged_step(document)
        named = said_step(path) if self.is_one else step_from_path(path)
        return next((step for step in (logged, named, self.step) if step is not None), None)

    def _logged_step(self, document: Mapping[str, Any]) -> Any:
        key = dict(self.keys).get("step")
        return None if key is None else value_at(document, key)


def agreed(adapters: Mapping[str, Adapter], keys: Mapping[str, frozenset[str]]) -> dict[str, Adapter]:
    """Return the adapters of a run's files, by file: files with the same keys are read with one inference.

    The first records of a file may lack an id that repeats, or a reward. Of the inferences whose keys a file
    has, it gets the one that most files have.

    Parameters
    ----------
    adapters : mapping of str to Adapter
    keys : mapping of str to frozenset of str
        Keys of each file's first records.
    """
    inferred = {file: each for file, each in adapters.items() if isinstance(each, InferredAdapter)}
    count = Counter(adapter.keys for adapter in inferred.values())
    ranked = sorted(inferred.items(), key=lambda item: (-count[item[1].keys], -len(item[1].keys), item[0]))

    def best(file: str) -> Adapter:
        own = dict(inferred[file].keys)
        for _, other in ranked:
            wanted = dict(other.keys)
            if ("step" in wanted) == ("step" in own) and keys[file].issuperset(wanted.values()):
                return replace(other, step=inferred[file].step)
        return inferred[file]

    return {file: best(file) if file in inferred else adapter for file, adapter in adapters.items()}


def inference_of(adapter: Adapter) -> Inference | None:
    """Return what an adapter's keys were inferred from; None if its format is known."""
    found = getattr(adapter, "inference", None)
    return found if isinstance(found, Inference) else None


# -- known fields --------------------------------------------------------------------------------------
# The fields that have a key so far, and questions about them.


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
