"""Columns that have the name of a field and values that contradict it.

A score may be the points of a task, a list of results may be a tool's, and a step the turn of an episode.
"""

from __future__ import annotations

from itertools import groupby, pairwise

from rlpanel.sources.inference import content
from rlpanel.sources.inference.aliases import GRADES, NameMatch, plain_name
from rlpanel.sources.inference.column_values import item_count
from rlpanel.sources.inference.inference import COUNTS_RESPONSES, NOT_REWARD, UNEQUAL
from rlpanel.sources.inference.key_values import KeyValues
from rlpanel.sources.inference.known_fields import UNSURE, KnownFields

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
