"""Result of an inference: the key of each field, its confidence and its reason.

`InferredAdapter` reads a file so. Its name holds the keys: a stored index is read anew if they change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rlpanel.sources.adapters.key_mapping import MappedAdapter, value_at
from rlpanel.sources.inference.content import as_reward
from rlpanel.sources.inference.episode_steps import action_text, answers_in
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.path_numbers import said_step, step_from_path
from rlpanel.sources.records.record_types import Adapter

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
