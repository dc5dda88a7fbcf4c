"""Gives fields the keys that no name shows, and finds columns whose values contradict their name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby, pairwise, repeat
from typing import Any

from rlpanel.sources.adapters.record_shapes import (
    columns_of,
    says_better,
    stands_for_columns,
    wins_of,
)
from rlpanel.sources.inference import content
from rlpanel.sources.inference.aliases import GRADES, NameMatch, names_model, plain_name
from rlpanel.sources.inference.column_values import (
    LONG,
    PROMPT_WORDS,
    KeyValues,
    is_like_messages,
    is_like_reward,
    item_count,
    key_says_model,
)
from rlpanel.sources.inference.inference import (
    BY_CONTENT,
    COUNTS_RESPONSES,
    MIN_FIT,
    NONE,
    NOT_REWARD,
    ONLY_TEXT,
    UNEQUAL,
    UNSURE,
    FieldCandidate,
    Guess,
    KnownFields,
)
from rlpanel.sources.inference.key_relations import agree, holds_question, paired_truth, predicted_key
from rlpanel.sources.spans.call_tree import CALLS, OF_CALLS

# -- field conflicts -----------------------------------------------------------------------------------
# Columns that have the name of a field and values that contradict it.
#
# A score may be the points of a task, a list of results may be a tool's, and a step the turn of an episode.


#: Word of a nested key that holds the policy's own answer.
_FINAL = ".final_"
#: Fewest records in which a score that never changes is the task's, not the sample's.
_CONSTANT = 3
_HALF = 0.5
#: Most different numbers of points that tasks give.
_FEW = 5
#: Words before ``results`` or ``outputs`` that name what others than the policy gave.
_NOT_SAMPLES = frozenset(
    {"tool", "tools", "search", "test", "tests", "retrieval", "judge", "eval", "function"}
)
#: Words of a key that counts.
_COUNT_WORDS = frozenset({"n", "num", "number", "count"})
#: Keys whose records are the turns of an episode.
_EPISODES = ("episode", "episode_id", "trajectory_id", "traj_id")


class FieldConflicts(KnownFields):
    """Refuses columns with the name of a field whose values contradict the fields before it."""

    def _suits(self, meaning: str, column: KeyValues, match: NameMatch) -> bool:
        """Return True unless a key's values contradict those of the fields found before."""
        outer = column.key.partition(".*.")[0] if ".*." in column.key else ""
        if outer and not self._is_of_samples(meaning, outer):
            return meaning == "reward" and self._has_groups() and self._is_one_per_response(column)
        if meaning == "prompt":
            if match.group >= UNSURE and self._is_beside_answer(column.key):
                return False  # a setting of the reply
            if all(content.as_number(value) is not None for value in column.values):
                return False  # numbers of questions
            if not self._is_one_prompt(column):
                self.doubts.append(f"{column.key} {UNEQUAL}")
                return False
            return not plain_name(column.key).rpartition(".")[2].startswith("system")
        if meaning == "response":
            if self._is_column_of_steps(column):
                return False
            # `doc.answer` is part of the task.
            is_own = "." not in column.key or column.key.endswith(".*") or _FINAL in column.key
            return match.group < UNSURE or is_own
        if meaning == "reward":
            if self._is_of_request(column.key):
                return False
            if self._counts_responses(column):
                self.doubts.append(f"{column.key} {NOT_REWARD}: {COUNTS_RESPONSES}")
                return False
            if match.group > 0 and (self._is_full_score(column) or self._is_of_task(column)):
                self.doubts.append(f"{column.key} {NOT_REWARD}: its values look like the points of each task")
                return False
            return self._is_one_per_response(column)
        if meaning == "step":
            return not self._counts_turns(column) and not self._counts_attempts(column)
        if meaning == "group":
            values = list(map(str, column.values))
            if match.group > 1:  # `id` names what is asked only if a record holds several samples
                return self._has_groups()
            return len(set(values)) < len(values) or "prompt" not in self.taken or self._has_groups()
        return True

    def _is_beside_answer(self, key: str) -> bool:
        """Return True for a key in an object beside the response: ``body.options.context``."""
        answer = self.taken.get("response")
        outer, parent = (
            answer.guess.key.rpartition(".")[0] if answer is not None else "",
            key.rpartition(".")[0],
        )
        return bool(outer) and parent != outer and parent.startswith(f"{outer}.")

    def _is_beside_messages(self, meaning: str, match: NameMatch) -> bool:
        """Return True for a text that the conversation holds anyway; only sure names count beside it."""
        is_sure = match.confidence >= GRADES[0]
        if "messages" not in self.taken or meaning not in ("prompt", "response"):
            return False
        return not is_sure and not (meaning == "prompt" and self._has_steps())

    def _is_of_request(self, key: str) -> bool:
        """Return True for a verdict on a request, not on the task, and say so."""
        is_of_request = key in self._requests.sure
        if is_of_request:
            self.doubts.append(f"{key} {NOT_REWARD}: it says that the request succeeded")
        return is_of_request

    def _counts_responses(self, column: KeyValues) -> bool:
        """Return True for the number of right ones among a record's responses: ``n_correct``."""
        words = plain_name(column.key).rpartition(".")[2].split("_")
        is_one = all(not isinstance(value, list) for value in column.values)
        if not is_one or _COUNT_WORDS.isdisjoint(words):
            return False
        if not {"response", "messages"}.isdisjoint(self.taken):
            return self._has_groups()
        return any(item_count(value) > 1 for each in self._columns.values() for value in each.values)

    def _is_full_score(self, column: KeyValues) -> bool:
        """Return True for a number above one that all records have before the response: a task's points."""
        numbers = {number for value in column.values for number in content.numbers_of(value)}
        order, answer = list(self._columns), self.taken.get("response")
        is_constant = len(column.values) >= _CONSTANT and len(numbers) == 1 and numbers.pop() > 1
        key = answer.guess.key if answer is not None else ""
        return is_constant and (key not in order or order.index(column.key) < order.index(key))

    def _is_of_task(self, column: KeyValues) -> bool:
        """Return True for the most points that each task gives: a program writes them before the question.

        They are few different whole numbers, all above one, in records with a ground truth.
        """
        numbers = {number for value in column.values for number in content.numbers_of(value)}
        asked, answer = (self.taken.get(name) for name in ("prompt", "response"))
        if asked is None or answer is None or len(column.values) < _CONSTANT or not numbers:
            return False
        if not all(number > 1 and number.is_integer() for number in numbers) or len(numbers) > _FEW:
            return False
        order = list(self._columns)
        own, *others = (
            order.index(each) if each in order else -1
            for each in (column.key, asked.guess.key, answer.guess.key)
        )
        return own < min(others) and self._has_ground_truth()

    def _is_column_of_steps(self, column: KeyValues) -> bool:
        """Return True for the actions of an episode, a list beside one of what was observed: not samples."""
        outer, dot, name = column.key.rpartition(".")
        is_list = any(isinstance(value, list) for value in column.values)
        if plain_name(name) != "actions" or not is_list:
            return False
        return any(
            isinstance(value, list)
            for seen in ("observations", "states", "obs")
            if (beside := self._columns.get(f"{outer}{dot}{seen}")) is not None
            for value in beside.values
        )

    def _is_of_samples(self, meaning: str, outer: str) -> bool:
        """Return True if the objects of a list are the samples of a record."""
        if meaning in ("response", "messages"):
            words = plain_name(outer).rpartition(".")[2].split("_")
            return words[-1] in content.SAMPLE_LISTS and _NOT_SAMPLES.isdisjoint(words[:-1])
        answer = self.taken.get("response") or self.taken.get("messages")
        return answer is not None and answer.guess.key.startswith(f"{outer}.*.")

    def _is_refuted(self, column: KeyValues) -> bool:
        """Return True for shares above one half where verdicts beside them are false: how sure a model is."""
        outer = column.key.rpartition(".")[0]
        for other in self._rewards:
            if other.key.rpartition(".")[0] != outer or len(other.values) != len(column.values):
                continue
            pairs = [
                (content.as_number(number), str(verdict).lower())
                for number, verdict in zip(column.values, other.values, strict=True)
            ]
            if {verdict for _, verdict in pairs} == {"true", "false"}:
                wrong = [number for number, verdict in pairs if verdict == "false" and number is not None]
                return bool(wrong) and all(0.0 <= number <= 1.0 for number in wrong) and min(wrong) > _HALF
        return False

    def _is_one_prompt(self, column: KeyValues) -> bool:
        """Return True if a record has one prompt, or as many as responses."""
        answer = self.taken.get("response")
        beside = self._columns.get(answer.guess.key) if answer is not None else None
        counts = [*map(item_count, column.values)]
        if beside is None or set(counts) == {1}:
            return True
        return counts == [*map(item_count, beside.values)]

    def _is_one_per_response(self, column: KeyValues) -> bool:
        """Return True if a record has as many values as responses."""
        answer = self.taken.get("response") or self.taken.get("messages")
        lengths = {len(content.items_of(value)) for value in column.values}
        if answer is None or lengths == {1} or answer.guess.key not in self._columns:
            return lengths == {1}
        responses = self._columns[answer.guess.key].values
        return [*map(item_count, column.values)] == [*map(item_count, responses)]

    def _counts_turns(self, column: KeyValues) -> bool:
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

    def _counts_attempts(self, column: KeyValues) -> bool:
        """Return True if an epoch counts attempts at a task: it goes back, or is Inspect's."""
        outer, _, name = column.key.rpartition(".")
        if plain_name(name) != "epoch":
            return False
        numbers = [content.as_number(value) or 0.0 for value in column.values]
        beside = {key.rpartition(".")[2] for key in self._columns if key.rpartition(".")[0] == outer}
        return {"target", "scores"} <= beside or any(after < before for before, after in pairwise(numbers))


# -- unnamed fields ------------------------------------------------------------------------------------
# Gives fields the keys that no name shows: a record's kind, its values, and the keys beside them decide.


#: Confidence in groups that only their prompts show, and in what is only proposed.
_BY_PROMPT = 0.3
#: A match of two names with each other.
_PAIRED = NameMatch(GRADES[2], 2, 0, "")
#: A prompt that only names a task.
_NAME = re.compile(r"\w+[_./-]\S+")
#: Fields whose texts are given, not written by the policy.
_GIVEN = ("ground_truth", "group")
#: Words of keys that data sets give beside a question.
_OF_TASKS = frozenset(
    {"context", "passage", "explanation", "rationale", "document", "evidence", "hint", "premise", "choices"}
    | {"options", "background", "story", "article", "source", "proof", "facts", "description", "cot"}
)
#: Words of a key whose conversation is the policy's.
_POLICY_WORDS = frozenset({"assistant", "agent", "policy", "model"})
#: A column of a table without names.
_UNNAMED = re.compile(r"column_\d+")
#: Longest prompt that is a group's name.
_GROUP_CHARS = 128


def _is_single(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def _is_one_text(value: Any) -> bool:
    """Return True for a text of several words, or a list with one: a path is not written by a model."""
    text = value[0] if isinstance(value, list) and len(value) == 1 else value
    return isinstance(text, str) and len(text.split()) >= PROMPT_WORDS


def _are_sentences(values: list[Any]) -> bool:
    """Return True if most values are texts of several words."""
    long = sum(isinstance(value, str) and len(value.split()) >= PROMPT_WORDS for value in values)
    return 2 * long > len(values)


class UnnamedFields(FieldConflicts):
    """Takes fields by what a record is: a trace, a comparison, a call of a model, a table without names."""

    #: Keys whose texts are made of other keys' texts, and keys that compare a record's responses.
    _whole: set[str]
    _compares: set[str]

    def _take_winner(self) -> bool:
        """Let a verdict that names the better of a record's columns be the reward; return whether it is."""
        answer = self.taken.get("response") or self.taken.get("messages")
        if answer is None or not stands_for_columns(answer.guess.key):
            return False
        names = columns_of(answer.guess.key, self._columns)
        for column in self._columns.values():
            if not says_better(column.key) or not self._is_free("reward", column.key):
                continue
            beside = [each for each in self._columns.values() if len(each.values) == len(column.values)]
            records = [{each.key: each.values[at] for each in beside} for at in range(len(column.values))]
            wins = [wins_of(*each) for each in zip(column.values, repeat(names), records, strict=False)]
            if sum(each is not None for each in wins) >= MIN_FIT * len(wins):
                reason = "it names the better response, which has 1, the others 0"
                guess = Guess("reward", column.key, GRADES[1], reason)
                self.taken["reward"] = FieldCandidate(guess, NameMatch(GRADES[1], 1, 0, ""))
                return True
            if all(isinstance(value, (int, float)) for value in column.values):
                self.doubts.append(f"{column.key} compares the responses; it is not read as their reward")
                self._compares.add(column.key)
        return False

    def _take_one_answer(self, named: Iterable[KeyValues]) -> None:
        """Take the only key with one answer for a record's reward, not a list of other answers beside it."""
        reward, answer = self.taken.get("reward"), self.taken.get("response")
        column = self._columns.get(reward.guess.key) if reward is not None else None
        beside = [key for key, _ in answer.guess.others] if answer is not None else []
        if column is None or answer is None or "response" in self._named:
            return
        held = [self._columns[key] for key in (answer.guess.key, *beside) if key in self._columns]
        if not any(isinstance(value, list) for each in held for value in each.values):
            return
        if any(isinstance(value, list) for value in column.values):
            return
        single = [each for each in named if content.share(_is_single, each.values) == 1.0]
        found = [(each, self._names[each.key]["response"]) for each in single]
        sure = [
            (each, match)
            for each, match in found
            if match.group < 2 and (each.key == answer.guess.key or self._is_free("response", each.key))
        ]
        if len(sure) == 1 and "*" not in answer.guess.key:
            column, match = sure[0]
            guess = Guess(
                "response", column.key, match.confidence, "the only key with one answer, as the reward"
            )
            self.taken["response"] = FieldCandidate(guess, match)

    def _take_paired(self) -> None:
        """Take a policy's text beside the right one, the verdict on both, and the text before them."""
        if not {"response", "messages"}.isdisjoint(self.taken):
            return
        pairs = {each: paired_truth(each, self._columns) for each in self._columns}
        key = next((each for each, truth in pairs.items() if truth and self._is_free("response", each)), "")
        column = self._columns.get(key)
        if column is None or not all(isinstance(value, str) for value in column.values):
            return
        truth = self._columns[pairs[key]]
        reason = f"{truth.key} beside it is the right one"
        self.taken["response"] = FieldCandidate(Guess("response", key, GRADES[2], reason), _PAIRED)
        reason = f"{key} beside it is the policy's"
        self.taken["ground_truth"] = FieldCandidate(
            Guess("ground_truth", truth.key, GRADES[2], reason), _PAIRED
        )
        verdicts = [each for each in self._columns.values() if agree(each, column, truth)]
        if "reward" not in self.taken and verdicts:
            reason = f"true where {key} is {truth.key}"
            self.taken["reward"] = FieldCandidate(
                Guess("reward", verdicts[0].key, GRADES[2], reason), _PAIRED
            )
        self._take_text_before(key)

    def _take_text_before(self, key: str) -> None:
        """Take the only texts that a record has before its response as the prompt, and say so."""
        order = list(self._columns)
        before = [self._columns[each] for each in order[: order.index(key)] if self._is_free("prompt", each)]
        texts = [each for each in before if "." not in each.key and _are_sentences(each.values)]
        if "prompt" not in self.taken and len(texts) == 1 and "*" not in texts[0].key:
            guess = Guess("prompt", texts[0].key, _BY_PROMPT, f"the only texts before {key}")
            self.taken["prompt"] = FieldCandidate(guess, NONE)

    def _take_only_text(self) -> None:
        """Take the only long texts of a model's call as the response if no name says another.

        A file that is called like a model, with questions and their answers, holds a model's texts as well.
        """
        if not {"response", "messages"}.isdisjoint(self.taken):
            return
        is_of_model = names_model(self._name) and {"prompt", "ground_truth"} <= self.taken.keys()
        if not self._is_call() and not is_of_model:
            return
        unsure = UNSURE if self._is_call() else len(GRADES)
        found = [
            column
            for column in self._columns.values()
            if column.present >= MIN_FIT
            and all(map(_is_one_text, column.values))
            and sum(len(str(value)) for value in column.values) > LONG * len(column.values)
            and not any(
                self._names[column.key].get(each, NONE).group < unsure for each in ("prompt", *_GIVEN)
            )
            and (self._is_call() or _OF_TASKS.isdisjoint(plain_name(column.key).split("_")))
            and (self._is_free("response", column.key) or self._is_unsure_prompt(column.key))
        ]
        if len(found) == 1:
            guess = Guess("response", found[0].key, BY_CONTENT["response"], ONLY_TEXT)
            self.taken["response"] = FieldCandidate(guess, NameMatch(guess.confidence, 2, 0, ""))
            if self._is_unsure_prompt(found[0].key):
                del self.taken["prompt"]

    def _is_predicted(self) -> bool:
        """Return True for texts that predict another key's, if a key or the file's name has a model in it."""
        answer = self.taken.get("response")
        key = answer.guess.key if answer is not None else ""
        if not key_says_model(key) or not predicted_key(key, self._columns):
            return False
        is_text = all(isinstance(value, str) for value in self._columns[key].values)
        return is_text and (names_model(self._name) or any(map(names_model, self._columns)))

    def _take_predicted(self) -> None:
        """Take the key that the response predicts as the ground truth, if a model predicted it."""
        if "ground_truth" in self.taken or not self._is_predicted():
            return
        key = predicted_key(self.taken["response"].guess.key, self._columns)
        if self._is_free("ground_truth", key):
            guess = Guess("ground_truth", key, GRADES[2], "the response's key says that it predicts this one")
            self.taken["ground_truth"] = FieldCandidate(guess, NameMatch(GRADES[2], 2, 0, ""))

    def _take_rendered_prompt(self) -> None:
        """Take the prompt that was made of the question in place of the question, if both are logged."""
        prompt, answer = self.taken.get("prompt"), self.taken.get("response")
        asked = self._columns.get(prompt.guess.key) if prompt is not None else None
        if prompt is None or answer is None or asked is None or "prompt" in self._named:
            return
        said = self._columns.get(answer.guess.key)
        for column in self._columns.values():
            is_prompt = "prompt" in plain_name(column.key).rpartition(".")[2].split("_")
            is_other = column.key != asked.key and self._is_free("prompt", column.key)
            if not (is_prompt and is_other and holds_question(column, asked)):
                continue
            if said is None or not holds_question(column, said):
                guess = Guess("prompt", column.key, prompt.guess.confidence, f"it holds {asked.key} and more")
                self.taken["prompt"] = FieldCandidate(guess, prompt.match)
                return

    def _is_unsure_prompt(self, key: str) -> bool:
        """Return True for a key that holds the prompt only by the end of its name, such as ``judge_text``."""
        prompt = self.taken.get("prompt")
        return prompt is not None and prompt.guess.key == key and prompt.match.group >= UNSURE

    def _propose_conversation(self, columns: list[KeyValues]) -> None:
        """Take the policy's by its name of several conversations, or else propose the first."""
        if not {"response", "messages"}.isdisjoint(self.taken):
            return
        found = [each for each in columns if is_like_messages(each) and self._is_free("messages", each.key)]
        found = [each for each in found if content.share(content.holds_answer, each.values) == 1.0]
        named = [
            each
            for each in found
            if not _POLICY_WORDS.isdisjoint(plain_name(each.key).replace(".", "_").split("_"))
        ]
        best, confidence = (named, BY_CONTENT["messages"]) if len(named) == 1 else (found, _BY_PROMPT)
        if len(found) > 1:
            reason = f"one of {len(found)} keys with conversations"
            guess = Guess("messages", best[0].key, confidence, reason)
            self.taken["messages"] = FieldCandidate(guess, NameMatch(confidence, 2, 0, ""))
            if "prompt" in self.taken and self._is_beside_messages("prompt", self.taken["prompt"].match):
                del self.taken["prompt"]

    def _take_calls(self) -> None:
        """Take the prompt and the response of a trace's calls, see `call_tree`."""
        for meaning in ("prompt", "response"):
            column = self._columns.get(f"{CALLS}.{meaning}")
            if column is not None and meaning not in self._named:
                guess = Guess(meaning, column.key, GRADES[1], "the outermost of the trace's calls has it")
                self.taken[meaning] = FieldCandidate(guess, NameMatch(GRADES[1], 0, 0, ""))

    def _guess_by_position(self) -> None:
        """Propose the two columns of texts of a table without names, and its only verdict; see `cells`."""
        if not {"prompt", "response", "messages"}.isdisjoint(self.taken):
            return
        columns = [column for column in self._columns.values() if _UNNAMED.fullmatch(column.key)]
        texts = [column for column in columns if _are_sentences(column.values)]
        texts = [column for column in texts if content.share(content.is_text, column.values) == 1.0]
        verdicts = [
            column
            for column in columns
            if is_like_reward(column) and content.share(content.is_reward, column.values) == 1.0
        ]
        names = dict(zip(("prompt", "response"), texts, strict=False)) if len(texts) == 2 else {}
        names |= {"response": texts[0]} if len(texts) == 1 else {}
        names |= {"reward": verdicts[0]} if len(verdicts) == 1 and names else {}
        for meaning, column in names.items():
            guess = Guess(meaning, column.key, _BY_PROMPT, "the table has no names")
            self.taken[meaning] = FieldCandidate(guess, NONE)

    def _take_group_as_prompt(self) -> None:
        """Let the group's name be the prompt, too, if it is a sentence and no key holds one."""
        group = self.taken.get("group")
        column = self._columns.get(group.guess.key) if group is not None else None
        if column is None or "prompt" in self.taken or "messages" in self.taken:
            return
        if all(isinstance(value, str) and len(value.split()) >= PROMPT_WORDS for value in column.values):
            guess = Guess("prompt", column.key, _BY_PROMPT, "the group's name is a text")
            self.taken["prompt"] = FieldCandidate(guess, NONE)

    def _group_by_prompt(self) -> None:
        """Let the prompt be the group's name, if no key names it and prompts are short and repeat."""
        prompt = self.taken.get("prompt")
        column = self._columns.get(prompt.guess.key) if prompt is not None else None
        if column is None or "group" in self.taken or "group" in self._named:
            return
        is_short = all(isinstance(value, str) and len(value) <= _GROUP_CHARS for value in column.values)
        is_name = all(isinstance(value, str) and _NAME.fullmatch(value) for value in column.values)
        repeats = len(set(map(str, column.values))) < len(column.values)
        if (is_name and repeats) or (is_short and self._has_groups()):
            guess = Guess("group", column.key, _BY_PROMPT, "samples have the same prompt")
            self.taken["group"] = FieldCandidate(guess, NONE)

    def _is_free(self, meaning: str, key: str) -> bool:
        """Return True if no field has taken the key, or an object around it."""
        if (meaning == "response" and key in self._whole) or (meaning == "reward" and key in self._compares):
            return False
        taken = [candidate.guess.key for candidate in self.taken.values()]
        if meaning == "ground_truth" and any(each.startswith(f"{key}.") for each in taken):
            return False  # the object around the response
        if f"{CALLS}.response" in taken and key.startswith(OF_CALLS):
            return False
        return not any(key == other or key.startswith(f"{other}.") for other in taken)
