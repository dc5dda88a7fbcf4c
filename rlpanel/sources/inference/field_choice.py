"""Chooses the key of each field: names (`aliases`) and values (`content`) decide together.

A ground truth is not taken for the response while another key can be it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rlpanel.sources.adapters.key_mapping import MappedAdapter
from rlpanel.sources.inference import content
from rlpanel.sources.inference.aliases import GRADES, NameMatch, names_model, plain_name, read_name
from rlpanel.sources.inference.column_values import (
    LONG,
    KeyValues,
    are_short,
    counts_records,
    is_against,
    is_answered,
    is_extracted,
    is_in_percent,
    is_like_messages,
    is_like_parts,
    is_like_reward,
    is_plan,
    is_transcript,
    is_unanswered,
    item_count,
    key_says_model,
    whole_texts,
    written_values,
)
from rlpanel.sources.inference.episode_steps import answers_in, listed_steps
from rlpanel.sources.inference.inference import (
    BY_CONTENT,
    COUNTS_RESPONSES,
    MIN_FIT,
    NONE,
    UNSURE,
    FieldCandidate,
    Guess,
)
from rlpanel.sources.inference.key_relations import (
    are_classes,
    is_of_other_model,
    is_of_other_text,
)
from rlpanel.sources.inference.rollout_evidence import RolloutEvidence
from rlpanel.sources.inference.unnamed_fields import UnnamedFields
from rlpanel.sources.inference.unrelated_scores import NO_REQUESTS, RequestStatus

#: Two keys whose confidences differ by less are about equal.
_EQUAL = 0.03
#: Loss of confidence for an id or a counter, and for texts of few characters.
_UNLIKELY = 0.4
#: Loss of confidence for a text of another model than the file's name says.
_OTHER_MODEL = 0.1
#: Gain in confidence of a verdict over a number, and of a model's score over the score of the task.
_VERDICT, _OF_MODEL = 0.05, 0.3
#: How much longer texts inside of objects are than the texts beside them, if those are not the response.
_LONGER = 4
#: Keys under which a response may be an object, and a list of calls.
_ACTIONS = re.compile(r"(?:^|[._])actions?$")
_CALLS = re.compile(r"(?:^|[._])(?:result|response|output)s?$")
#: Words of a score that say that it is the policy's, not its opponent's.
_LEARNERS = frozenset({"model", "llm", "trained", "policy", "learner"})
_Test = tuple[Callable[[Any], bool], str]
_LISTS: _Test = (content.is_number_list, "lists of numbers")
_LABELS: _Test = (content.is_label, "short texts or numbers")
#: Field → test of a value, and what such values are called. The fields take their keys in this order.
_TESTS: dict[str, _Test] = {
    "messages": (content.holds_answer, "conversations"),
    "response": (content.is_text, "texts"),
    "prompt": (content.is_text, "texts"),
    "reward": (content.is_reward, "numbers"),
    "rewards": (is_like_parts, "objects of numbers"),
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


class FieldChoice(UnnamedFields, RolloutEvidence):
    """Gives each field its key, one field after the other; see `KnownFields` for the arguments."""

    def __init__(
        self,
        columns: list[KeyValues],
        mapped: MappedAdapter | None,
        path: str = "",
        around: str = "",
        requests: RequestStatus = NO_REQUESTS,
    ) -> None:
        super().__init__(columns, mapped, path, around, requests)
        self._whole = whole_texts(columns)
        self._compares: set[str] = set()
        self._given_up = ""
        self._take_calls()
        by_meaning: dict[str, list[KeyValues]] = {}
        unnamed: list[KeyValues] = []
        for column in columns:
            fields = self._names[column.key]
            for meaning in fields:
                by_meaning.setdefault(meaning, []).append(column)
            if not any(content.share(_TESTS[each][0], column.values) >= MIN_FIT for each in fields):
                unnamed.append(column)
        for meaning, test in _TESTS.items():
            if meaning in self.taken:
                continue
            if meaning == "reward" and self._take_winner():
                continue
            if meaning == "ground_truth":
                self._take_one_answer(by_meaning.get("response", ()))
                self._give_up_unsure_response()
            # A conversation without an answer is a prompt.
            named = [
                *by_meaning.get(meaning, ()),
                *(by_meaning.get("messages", ()) if meaning in ("prompt", "response") else ()),
                *(filter(is_plan, columns) if meaning == "response" else ()),
            ]
            free = [column for column in named if self._is_free(meaning, column.key)]
            found = [self._candidate(meaning, column, test) for column in free]
            if any(found):
                self._take([candidate for candidate in found if candidate is not None])
            elif meaning in BY_CONTENT:
                self._take_by_content(meaning, unnamed)
        self._take_paired()
        self._take_only_text()
        self._take_predicted()
        self._take_rendered_prompt()
        self._give_up_classes()
        self._propose_conversation(columns)
        self._guess_by_position()
        self._take_group_as_prompt()
        self._group_by_prompt()
        self._doubt_shared_reward()
        self._doubt_reward_values()
        self._doubt_equal_prompts()
        self._doubt_parts_of_texts()

    def likely_text(self) -> str:
        """Return the key with the longest texts that no field has, beside a reward; empty without one."""
        taken = {candidate.guess.key for candidate in self.taken.values()}
        texts = [
            (sum(len(str(value)) for value in column.values), column.key)
            for column in self._columns.values()
            if "." not in column.key
            and column.key not in taken
            and not is_against(column.key)
            and content.share(content.is_text, column.values) == 1.0
        ]
        size, longest = max(texts, default=(0, ""))
        inner = max(
            (
                sum(len(value) for value in column.values if isinstance(value, str))
                for key, column in self._columns.items()
                if "." in key
            ),
            default=0,
        )
        is_judged = "reward" in self.taken or any(doubt.endswith(COUNTS_RESPONSES) for doubt in self.doubts)
        if not is_judged or inner > _LONGER * size:
            longest = ""  # the texts are inside of objects
        if self._given_up and "prompt" in self.taken:
            return "" if self._is_choice_label(self._given_up) else self._given_up
        return longest

    def _is_choice_label(self, key: str) -> bool:
        """Return True for single letters: the right choices of a task, not what a policy wrote."""
        values = self._columns[key].values if key in self._columns else []
        return bool(values) and all(
            isinstance(value, str) and len(value.strip()) == 1 and value.strip().isalpha() for value in values
        )

    def _doubt_shared_reward(self) -> None:
        """Say that several responses of a record have one reward: it may be that of all of them together."""
        reward = self.taken.get("reward")
        column = self._columns.get(reward.guess.key) if reward is not None else None
        if column is None or not self._has_groups() or "*" in column.key:
            return
        if all(item_count(value) == 1 and not isinstance(value, list) for value in column.values):
            self.doubts.append(f"{column.key} is one number for several responses")

    def _doubt_reward_values(self) -> None:
        """Say that a verdict may be a request's, and that shares may be percent."""
        reward = self.taken.get("reward")
        column = self._columns.get(reward.guess.key) if reward is not None else None
        if column is None or "reward" in self._named:
            return
        if column.key in self._requests.unsure:
            self.doubts.append(f"{column.key} may say that the request succeeded, not the task")
        if is_in_percent(column):
            self.doubts.append(f"{column.key} has values above 1, perhaps percent; they are read as they are")

    def _doubt_equal_prompts(self) -> None:
        """Say that another key may as well hold the prompt."""
        guess = self.taken["prompt"].guess if "prompt" in self.taken else None
        if guess is None or guess.confidence >= GRADES[1] or guess.key not in self._columns:
            return
        close = [key for key, confidence in guess.others if guess.confidence - confidence < _EQUAL]
        close = [key for key in close if self._differ(guess.key, key)]
        if close:
            self.doubts.append(f"the prompt may as well be {close[0]}")

    def _doubt_parts_of_texts(self) -> None:
        """Say that another key has the response as well, with more or less around it."""
        guess = self.taken["response"].guess if "response" in self.taken else None
        if guess is None or guess.key not in self._columns or "response" in self._named:
            return
        for key, confidence in guess.others:
            is_close = guess.confidence - confidence < _EQUAL and self._differ(guess.key, key)
            if is_close and self._hold_one_another(guess.key, key):
                self.doubts.append(f"the response is also in {key}, with another text around it")

    def equal_keys(self) -> tuple[str, ...]:
        """Return the keys of a decisive field that are about equally likely and hold other values."""
        if self._may_be_turns():
            key = self.taken["response"].guess.key
            return f"{key} as samples", f"{key} as the turns of one sample"
        for meaning in ("response", "reward"):
            candidate = self.taken.get(meaning)
            beside = meaning == "response" and "messages" in self.taken
            if candidate is None or meaning in self._named or beside:
                continue
            guess = candidate.guess
            close = [key for key, confidence in guess.others if guess.confidence - confidence < _EQUAL]
            is_judged = "ground_truth" in self.taken  # what is compared with it is taken out of a response
            if meaning == "response" and is_judged and not is_extracted(guess.key):
                close = [key for key in close if not is_extracted(key)]
            different = [key for key in close if self._differ(guess.key, key)]
            if meaning == "response":
                different = [key for key in different if not self._hold_one_another(guess.key, key)]
            if different:
                return guess.key, *different
        return ()

    def _give_up_classes(self) -> None:
        """Leave the reward open if several keys are about equal and name the class of a response."""
        reward = self.taken.get("reward")
        if reward is None or "reward" in self._named or reward.guess.key not in self._columns:
            return
        guess = reward.guess
        close = [key for key, confidence in guess.others if guess.confidence - confidence < _EQUAL]
        keys = [guess.key, *(key for key in close if key in self._columns)]
        outer = guess.key.rpartition(".")[0]
        others = [each for each in self._columns if each.rpartition(".")[0] == outer and each not in keys]
        sets = [keys, *([*keys, each] for each in others)]
        if len(keys) > 1 and any(are_classes([self._columns[key] for key in each]) for each in sets):
            del self.taken["reward"]
            self.doubts.append(
                f"{' and '.join(keys)} are classes of the response; none is read as the reward"
            )

    def _may_be_turns(self) -> bool:
        """Return True if a record has several prompts, as many responses, and one reward for all of them."""
        asked, answer, reward = (
            self._columns.get(self.taken[meaning].guess.key) if meaning in self.taken else None
            for meaning in ("prompt", "response", "reward")
        )
        if asked is None or answer is None or reward is None or "response" in self._named:
            return False
        counts = [*map(item_count, answer.values)]
        are_lists = all(isinstance(value, list) for value in (*asked.values, *answer.values))
        is_one = not any(isinstance(value, list) for value in reward.values)
        return are_lists and is_one and max(counts) > 1 and counts == [*map(item_count, asked.values)]

    def _give_up_unsure_response(self) -> None:
        """Let the ground truth have a key such as ``answer``, if no reward says that it was scored."""
        answer = self.taken.get("response")
        is_sampled = self._has_sampling_keys() and self._is_generated() and self._is_model_named()
        if (
            answer is not None
            and answer.match.group >= UNSURE
            and "reward" not in self.taken
            and not is_sampled
            and not key_says_model(answer.guess.key)
            and not self._is_text_of_model(answer.guess.key)
            and not self._are_submissions(answer.guess.key)
            and not self._counts_steps(answer.guess.key)
            and not ("prompt" in self.taken and self._is_sampled_call())
            and not self._counts_tokens(answer.guess.key)
        ):
            self._given_up = answer.guess.key
            del self.taken["response"]

    def _take(self, found: list[FieldCandidate]) -> None:
        if found[0].guess.meaning == "response":
            found = [self._with_full_text(each) for each in found]
        found.sort(key=lambda each: (-each.guess.confidence, each.guess.key.count("."), each.match.rank))
        best, *others = found
        next_best = tuple((other.guess.key, round(other.guess.confidence, 2)) for other in others[:3])
        self.taken[best.guess.meaning] = best._replace(guess=replace(best.guess, others=next_best))

    def _with_full_text(self, found: FieldCandidate) -> FieldCandidate:
        """Return a short answer with the key of the model's longer text that holds it, if there is one."""
        column = self._columns.get(found.guess.key)
        if column is None or not key_says_model(column.key) or not are_short(column.values):
            return found
        for other in self._columns.values():
            if (
                other.key == column.key
                or not key_says_model(other.key)
                or len(other.values) != len(column.values)
            ):
                continue
            pairs = zip(other.values, column.values, strict=True)
            holds = [
                isinstance(long, str) and len(long) > LONG and str(short) in long for long, short in pairs
            ]
            if sum(holds) >= MIN_FIT * len(holds):
                reason = f"texts that hold those of {column.key}"
                return found._replace(guess=replace(found.guess, key=other.key, reason=reason))
        return found

    def _take_by_content(self, meaning: str, unnamed: list[KeyValues]) -> None:
        """Take the only key whose values are like the field's, if no field has its name."""
        if meaning == "reward" and not self._has_sure_answer():
            unnamed = [column for column in unnamed if self._is_verdict(column)]
        test, what = _TESTS[meaning]
        fits = {
            "reward": lambda column: is_like_reward(column) or self._is_verdict(column),
            "response": self._has_rewards,
        }.get(meaning, is_like_messages)
        found = [column for column in unnamed if fits(column) and content.share(test, column.values) == 1.0]
        found = [column for column in found if self._is_free(meaning, column.key)]
        found = [column for column in found if meaning != "reward" or not self._is_of_request(column.key)]
        if len(found) != 1:
            return
        reason = f"the only key with {what}"
        guess = Guess(meaning, found[0].key, BY_CONTENT[meaning], reason)
        group = 0 if meaning == "response" else 3  # a list with a reward for each item holds nothing else
        self.taken[meaning] = FieldCandidate(guess, NameMatch(guess.confidence, group, 0, ""))

    def _has_rewards(self, column: KeyValues) -> bool:
        """Return True for lists of several texts, if a key with a reward's name has a number for each."""
        counts = [*map(item_count, column.values)]
        around = self._columns.get(column.key.rpartition(".")[0])
        if around is not None and any(listed_steps(value) for value in around.values):
            return False  # the thoughts of an episode
        return (
            ".*." not in column.key
            and max(counts) > 1
            and any(
                [*map(item_count, reward.values)] == counts
                and content.share(content.is_reward, reward.values) == 1.0
                for reward in self._rewards
            )
        )

    def _is_verdict(self, column: KeyValues) -> bool:
        """Return True for truth values beside a response and a ground truth: whether they agree."""
        are_truths = all(isinstance(value, bool) for value in column.values) and not is_against(column.key)
        has_answer = not {"response", "messages"}.isdisjoint(self.taken)
        return are_truths and "." not in column.key and has_answer and self._has_ground_truth()

    def _candidate(self, meaning: str, column: KeyValues, test: _Test) -> FieldCandidate | None:
        """Return the guess that a key holds a field; None if its name or its values are against it."""
        match = self._names[column.key].get(meaning, NONE)
        if meaning == "response" and not match.confidence and is_transcript(column):
            match = read_name("messages", column.key)._replace(group=2)
        if meaning == "response" and not match.confidence and is_plan(column):
            match = NameMatch(GRADES[2], 2, 0, "")
        if meaning == "prompt" and not match.confidence and is_unanswered(column):
            match = read_name("messages", column.key)  # a conversation without an answer
        if not match.confidence or self._is_beside_messages(meaning, match):
            return None
        if meaning == "prompt" and match.group >= UNSURE and is_answered(column):
            return None
        fits, what = test
        values = column.values
        if meaning == "messages":
            values = [answers_in(column.key, value) or value for value in values]
        elif ".*." in column.key and _TESTS[meaning] in (_LISTS, _TESTS["response_token_ids"]):
            values = [item for value in values for item in value]  # a list for each sample, not a number
        elif meaning == "response" and _ACTIONS.search(plain_name(column.key)):
            fits = content.is_action
        elif meaning == "response" and _CALLS.search(plain_name(column.key)):
            fits = content.is_answer
        elif meaning == "response" and is_plan(column):
            fits, what = bool, "lists of objects"
        fit = content.share(fits, written_values(values) if meaning == "response" else values)
        if meaning == "reward" and plain_name(column.key).rpartition(".")[2] == "result":
            is_verdict = any(isinstance(value, bool) for value in values)  # a number is an answer
            fit = content.share(lambda value: value in (False, True), values) if is_verdict else 0.0
        if fit < MIN_FIT or not self._suits(meaning, column, match):
            return None
        confidence = match.confidence - 0.5 * (1.0 - fit) - 0.1 * (1.0 - column.present)
        confidence -= _UNLIKELY if meaning == "reward" and match.group > 1 and counts_records(column) else 0.0
        confidence -= (
            _UNLIKELY if meaning == "reward" and match.group > 0 and self._is_refuted(column) else 0.0
        )
        if meaning == "reward" and match.group > 0:
            confidence += _VERDICT if all(isinstance(value, bool) for value in values) else 0.0
            is_of_model = not _LEARNERS.isdisjoint(plain_name(column.key).split("_"))
            answer = self.taken.get("response")
            is_other = answer is not None and is_of_other_text(column.key, answer.guess.key, self._columns)
            confidence += _OF_MODEL if is_of_model and not is_other else 0.0
            confidence -= _UNLIKELY if is_other else 0.0
        if meaning == "response" and (self._counts_steps(column.key) or self._counts_tokens(column.key)):
            confidence = max(confidence, BY_CONTENT[meaning])
        if meaning == "ground_truth" and all(isinstance(each, str) and names_model(each) for each in values):
            return None  # the names of models
        if meaning == "response" and is_of_other_model(column.key, self._name):
            confidence -= _OTHER_MODEL
        if meaning == "prompt" and plain_name(column.key) == "query" and self._asks_otherwise():
            confidence -= _OF_MODEL  # SQL, most likely
        if meaning == "messages" and values != column.values:  # actions show what the key's name does not
            confidence = max(confidence, BY_CONTENT[meaning])
        reason = f"{100 * fit * column.present:.0f} % of the records are {what}"
        reason += f" (named so by {match.source})" if match.source else ""
        return FieldCandidate(Guess(meaning, column.key, round(max(confidence, 0.0), 2), reason), match)
