"""Evidence that a policy wrote the records: data sets, and chats without rewards, are not rollouts."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from rlpanel.sources.adapters.record_shapes import columns_of, stands_for_columns
from rlpanel.sources.inference import content
from rlpanel.sources.inference.aliases import names_model, plain_name
from rlpanel.sources.inference.column_values import (
    are_short,
    is_beside,
    is_extracted,
    item_count,
    key_says_model,
)
from rlpanel.sources.inference.episode_steps import is_thought_step
from rlpanel.sources.inference.inference import MIN_CONFIDENCE, ONLY_TEXT, UNEQUAL, UNSURE, Guess, KnownFields
from rlpanel.sources.inference.key_relations import paired_truth
from rlpanel.sources.spans.call_tree import CALLS

#: Names of files that hold what policies wrote, even without rewards: conversations, and texts.
_NAMED_TRAJECTORIES = re.compile(
    r"rollouts?(?![a-z])|trajector(?:y|ies)|(?<![a-z])trajs?(?![a-z])|episodes?(?![a-z])"
)
_NAMED_PREDICTIONS = re.compile(r"(?:predictions?|preds)[_\-\d]*(?:\.|$)|(?:^| )(?:predictions?|preds?)[_\-]")
_NAMED_SAMPLES = re.compile(
    rf"{_NAMED_TRAJECTORIES.pattern}|generations?(?![a-z])|completions?(?![a-z])|(?<![a-z])gens(?![a-z])"
)
#: Keys of an API's reply, and the beginning of a turn in a chat template.
_OF_REPLY = frozenset({"finish_reason", "stop_reason", "completion_tokens"})
_TEMPLATE = re.compile(
    r"<\|im_start\|>|<\|start_header_id\|>|\[/INST\]|<start_of_turn>|<\|(?:user|assistant)\|>"
)
#: Keys of a data set of tasks for code.
_OF_TASKS = frozenset(
    {"test", "tests", "test_list", "test_cases", "entry_point", "starter_code", "difficulty"}
)
#: Ids of tasks for code: ``HumanEval/12``, ``Mbpp/3``.
_BENCHMARK_ID = re.compile(r"(?:HumanEval|Mbpp|BigCodeBench|EvoEval)[\w-]*/\d+", re.IGNORECASE)
#: Fewest responses to a prompt that only a policy's samples are.
_SEVERAL = 4


class RolloutEvidence(KnownFields):
    """Decides from the fields and the names around them whether a policy wrote the records."""

    def are_rollouts(self) -> bool:
        """Return True if the records are samples of a policy, not a data set or a chat."""
        if any(self._named.get(name) in self._columns for name in ("prompt", "response", "messages")):
            return True  # the user says so
        answer = self.taken.get("response") or self.taken.get("messages")
        if answer is not None and answer.guess.key.startswith(f"{CALLS}."):
            return True  # a model was called
        if answer is None or answer.guess.confidence < MIN_CONFIDENCE or self._are_spans():
            return False
        if "prompt" not in self.taken and any(doubt.endswith(UNEQUAL) for doubt in self.doubts):
            return False
        reward, prompt = self.taken.get("reward"), self.taken.get("prompt")
        is_sampled = "step" in self.taken or self._has_sampling_keys()
        if "response" not in self.taken:
            is_logged = "ground_truth" in self.taken and self._repeats_answer(answer.guess.key)
            is_logged = is_logged or self._thinks_and_acts(answer.guess.key)
            is_named = _NAMED_TRAJECTORIES.search(self._name) is not None
            if self._ends_with_answer(answer.guess.key) and (
                self._is_model_called() or any(map(self._is_rendered, self._columns))
            ):
                return True
            return reward is not None or self._is_choice() or is_named or is_logged
        group = answer.match.group
        if self._are_submissions(answer.guess.key) or self._is_judged_extract(answer.guess.key):
            return True
        if reward is not None and reward.guess.confidence >= MIN_CONFIDENCE:
            if group >= 2 and self._are_transitions(answer.guess.key):
                return True
            if group >= UNSURE and reward.match.group >= UNSURE:
                return False  # `answer` and `grade` are as well a task's
            # A name that other logs use as well needs a question beside it, or what only samples have.
            if is_sampled and "group" in self.taken and reward.match.group < UNSURE:
                return True
            if "ground_truth" in self.taken and (
                reward.match.group == 0 or (group <= 1 and self._has_verdict())
            ):
                return True
            if _NAMED_TRAJECTORIES.search(plain_name(answer.guess.key)):
                return True
            if names_model(self._name) and "ground_truth" in self.taken and reward.match.group < UNSURE:
                return True
            if group < UNSURE and self._is_call() and reward.match.group < UNSURE:
                return True
            asked = prompt is not None and prompt.match.group < 3
            if (
                group < 2
                and key_says_model(answer.guess.key)
                and is_beside(answer.guess.key, reward.guess.key)
            ):
                return True
            return asked or group == 0 or (group == 1 and (is_sampled or "group" in self.taken))
        if self._is_choice() and self._is_reply(answer.guess.key):
            return True  # the result of a batch of requests
        if "*" in answer.guess.key and _NAMED_TRAJECTORIES.search(plain_name(answer.guess.key)):
            return True  # a list of rollouts
        if prompt is not None and prompt.match.group < UNSURE and self._is_sampled_call():
            return True
        if (
            self._is_paired(answer.guess.key)
            or self._has_extracts(answer.guess.key)
            or self._is_left_text(answer.guess)
        ):
            return True
        if self._misses_choices(answer.guess.key) or self._counts_steps(answer.guess.key):
            return True
        is_named = _NAMED_SAMPLES.search(self._name) is not None
        is_of_model = names_model(self._name)
        is_judged = "ground_truth" in self.taken and (
            key_says_model(answer.guess.key)
            or (prompt is not None and any(map(key_says_model, self._columns)))
        )
        if prompt is not None and group < UNSURE and (self._is_call() or self._is_rendered(prompt.guess.key)):
            return True
        if group < UNSURE and self._is_call() and self._is_reply(answer.guess.key):
            return True
        if prompt is not None and self._counts_tokens(answer.guess.key):
            return True
        if is_named and self._are_transitions(answer.guess.key):
            return True
        if prompt is not None and group < 2 and self._are_answers_of_models(answer.guess.key):
            return True
        is_several = any(column.records > 1 for column in self._columns.values())
        is_named_so = is_of_model or self._is_model_named()
        if group == 0 and ((self._is_choice() and is_several) or (prompt is not None and is_named_so)):
            return True
        if (prompt is not None and key_says_model(answer.guess.key)) or self._is_text_of_model(
            answer.guess.key
        ):
            return True
        if (
            prompt is not None
            and group < 2
            and "*" in answer.guess.key.rpartition(".")[2]
            and self._has_groups()
        ):
            return True  # numbered responses to a prompt
        is_predicted = _NAMED_PREDICTIONS.search(self._name) is not None and (
            prompt is not None or "ground_truth" in self.taken
        )
        is_many = self._has_many_responses()
        return (
            (is_named and group < 2)
            or is_judged
            or (group < 2 and is_many and "group" in self.taken and key_says_model(answer.guess.key))
            or (group == 0 and is_many and self._is_model_called())
            or (group < 2 and (is_predicted or (prompt is not None and is_many)))
            or (is_sampled and group == UNSURE and self._is_generated() and self._is_model_named())
            or (is_sampled and (group == 0 or (group <= 2 and self._is_generated())))
        )

    def _is_paired(self, key: str) -> bool:
        """Return True for a response beside its truth, by both names, if a model or a verdict is named."""
        is_judged = "reward" in self.taken or names_model(self._name)
        return is_judged and bool(paired_truth(key, self._columns))

    def _is_left_text(self, guess: Guess) -> bool:
        """Return True for the only text beside questions and answers, in a file with a model's name."""
        beside = {"prompt", "ground_truth"} <= self.taken.keys() and names_model(self._name)
        return beside and guess.reason == ONLY_TEXT

    def _ends_with_answer(self, key: str) -> bool:
        """Return True for conversations whose last word is the policy's: a request ends with a question."""
        values = self._columns[key].values if key in self._columns else []
        talks = [content.read_conversation(each) for each in values]
        return bool(talks) and all(talk and content.holds_answer(list(talk)[-1:]) for talk in talks)

    def _is_rendered(self, key: str) -> bool:
        """Return True for prompts in a chat template, which only a model reads."""
        column = self._columns.get(key)
        values = [value for each in column.values for value in content.items_of(each)] if column else []
        texts = [value for value in values if isinstance(value, str)]
        return bool(texts) and all(_TEMPLATE.search(text) is not None for text in texts)

    def _is_reply(self, key: str) -> bool:
        """Return True for a text beside what an API writes with it, in one object or in two."""
        outer = key.partition(".")[0]
        stem = plain_name(outer).rpartition("_")[0] or plain_name(outer)
        return any(
            plain_name(each).rpartition(".")[2] in _OF_REPLY and plain_name(each).startswith(stem)
            for each in self._columns
            if "." in each
        )

    def _are_answers_of_models(self, key: str) -> bool:
        """Return True for columns that are called like models, or that a record names models for."""
        if not stands_for_columns(key) or key.endswith("*"):
            return False
        models = [names_model(name) for name in columns_of(key, self._columns)]
        return all(models) or any(
            plain_name(each).startswith("model")
            and all(isinstance(value, str) and names_model(value) for value in column.values)
            for each, column in self._columns.items()
        )

    def _repeats_answer(self, key: str) -> bool:
        """Return True if a key of a response holds the last message of a conversation again."""
        talks = self._columns[key].values if key in self._columns else []
        last = [(content.read_conversation(talk) or [{}])[-1].get("content") for talk in talks]
        named = [self._columns[each] for each, fields in self._names.items() if "response" in fields]
        return any(last and column.values == last for column in named)

    def _has_extracts(self, key: str) -> bool:
        """Return True for a response beside short answers, under keys that say they were taken out of it."""
        answer = self.taken.get("response")
        return (answer is not None and answer.match.group == 0 and "." not in key) and any(
            each != key and "." not in each and is_extracted(each) and are_short(column.values)
            for each, column in self._columns.items()
        )

    def _misses_choices(self, key: str) -> bool:
        """Return True for answers to questions with choices, some of which lack the right one.

        The texts of a data set have it.
        """
        answer, truth = self.taken.get("response"), self.taken.get("ground_truth")
        if answer is None or truth is None or answer.match.group > 0 or key not in self._columns:
            return False
        truths = self._columns.get(truth.guess.key)
        texts = self._columns[key].values
        if truths is None or len(truths.values) != len(texts):
            return False
        offered = [
            column.values
            for column in self._columns.values()
            if len(column.values) == len(texts)
            and all(
                _offers(choices, right) for choices, right in zip(column.values, truths.values, strict=True)
            )
        ]
        meant = [
            {str(right), *(str(each[right]) for each in around if isinstance(each, dict))}
            for right, *around in zip(truths.values, *offered, strict=True)
        ]
        missed = [
            isinstance(text, str) and not any(_has_word(text, each) for each in known)
            for text, known in zip(texts, meant, strict=True)
        ]
        return bool(offered) and any(missed)

    def _thinks_and_acts(self, key: str) -> bool:
        """Return True for episodes in whose steps a policy thinks, acts, and sees what follows."""
        values = self._columns[key].values if key in self._columns else []
        return bool(values) and all(
            isinstance(value, list) and bool(value) and all(map(is_thought_step, value)) for value in values
        )

    def _are_spans(self) -> bool:
        """Return True for the spans of a trace: a sample is made of several."""
        names = {plain_name(key) for key in self._columns if "." not in key}
        return {"start_time", "end_time", "type"} <= names and "reward" not in self.taken

    def _is_text_of_model(self, key: str) -> bool:
        """Return True for a text beside the id of its question, in a file that is called like a model."""
        beside = {plain_name(each) for each in self._columns}
        is_named = names_model(self._name)
        return is_named and plain_name(key) == "text" and "question_id" in beside

    def _are_submissions(self, key: str) -> bool:
        """Return True for solutions by the id of a benchmark's task, without its question.

        A data set of solutions has the questions as well.
        """
        ids = next((each for each in self._columns.values() if plain_name(each.key) == "task_id"), None)
        if ids is None or plain_name(key) != "solution" or "*" in key:
            return False
        asked = any(
            {"prompt", "ground_truth"} & fields.keys() for each, fields in self._names.items() if each != key
        )
        keys = set(map(plain_name, self._columns))
        if asked or not _OF_TASKS.isdisjoint(keys):
            return False
        names = list(map(str, ids.values))
        repeats = len(set(names)) < len(names)
        is_sampled = repeats or not keys.isdisjoint({"identifier", "raw_solution"})
        is_benchmark = all(_BENCHMARK_ID.fullmatch(each) for each in names)
        return is_sampled or is_benchmark or says_samples(self._name)

    def _is_judged_extract(self, key: str) -> bool:
        """Return True for an answer taken out of a response, beside the reference and a verdict."""
        is_answer = is_extracted(key) and plain_name(key).rpartition("_")[2] in ("answer", "solution")
        return is_answer and "ground_truth" in self.taken and self._has_verdict()

    def _has_verdict(self) -> bool:
        """Return True if the reward's name is one of those that hardly mean anything else."""
        reward = self.taken.get("reward")
        return reward is not None and reward.match.group < UNSURE

    def _has_many_responses(self) -> bool:
        """Return True if each record holds so many responses to its prompt that a policy was sampled."""
        answer = self.taken.get("response")
        column = self._columns.get(answer.guess.key) if answer is not None else None
        prompt = self.taken.get("prompt")
        asked = self._columns.get(prompt.guess.key) if prompt is not None else None
        if asked is not None and any(item_count(value) > 1 for value in asked.values):
            return False  # each has a prompt of its own
        return column is not None and all(item_count(value) >= _SEVERAL for value in column.values)

    def _are_transitions(self, key: str) -> bool:
        """Return True for the steps of an environment: an action, and what was seen before or after it."""
        seen = {"obs", "observation", "state", "next_obs", "next_observation", "next_state"}
        return plain_name(key) == "action" and bool(seen & set(map(plain_name, self._columns)))

    @property
    def has_final_answer(self) -> bool:
        """True if a key with the word final holds the response, beside a sure reward."""
        answer, reward = self.taken.get("response"), self.taken.get("reward")
        is_final = answer is not None and "final" in plain_name(answer.guess.key).split("_")
        return is_final and reward is not None and reward.match.group < UNSURE


def _offers(choices: Any, right: Any) -> bool:
    """Return True for a list of choices, or an object of such by letter, with the right one among them."""
    is_one = isinstance(right, (str, int))
    return is_one and isinstance(choices, (list, dict)) and len(choices) > 1 and right in choices


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


def says_samples(name: str) -> bool:
    """Return True if a key or a file's name says that a policy wrote what it holds."""
    return _NAMED_SAMPLES.search(plain_name(name)) is not None


def says_model(path: str, keys: Collection[str]) -> bool:
    """Return True if a file is called like a model, or most of several keys are."""
    named = sum(names_model(key) for key in keys)
    is_file = names_model(path.rpartition("/")[2])
    return is_file or (len(keys) > 1 and 2 * named >= len(keys))
