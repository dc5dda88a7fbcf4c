"""Chooses the key of each field: names (`aliases`) and values (`content`) decide together.

A ground truth is not taken for the response while another key can be it. Data sets, and chats without
rewards, are not rollouts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from rlpanel.sources.adapters.key_mapping import MappedAdapter
from rlpanel.sources.inference import content
from rlpanel.sources.inference.aliases import GRADES, SAMPLING, NameMatch, plain_name, read_name
from rlpanel.sources.inference.episode_steps import answers_in, listed_steps
from rlpanel.sources.inference.inference import LEAST, UNEQUAL, Guess
from rlpanel.sources.inference.key_values import KeyValues, fields_of_keys, whole_texts

#: Least share of a key's values that fit a field.
_LEAST_FIT = 0.7
#: Confidence in groups that only their prompts show.
_BY_PROMPT = 0.3
#: Two keys whose confidences differ by less are about equal.
_EQUAL = 0.03
#: Confidence in a conversation, a list of responses, and a reward, that only their values show.
_BY_CONTENT = {"messages": 0.7, "response": 0.6, "reward": 0.52}
#: From this group of names on, a key is a response only beside a reward.
_UNSURE = 3
#: Loss of confidence for an id or a counter, and for texts of few characters.
_UNLIKELY = 0.4
#: Words of a key whose numbers are not rewards.
_NOT_REWARDS = frozenset(
    {"example", "sample", "attempt", "trial", "row", "line"}
    | {"id", "idx", "index", "step", "epoch", "turn", "turns", "rank", "seed", "port", "level", "rating"}
    | {"count", "num", "len", "length", "tokens", "chars", "size", "n", "k", "max", "min", "top", "version"}
    | {"time", "timestamp", "date", "year", "seconds", "ms", "latency", "duration", "cost", "price"}
    | {"temperature", "logprob", "logprobs", "prob", "probability", "loss", "perplexity", "ppl", "entropy"}
)
#: Names of files that hold what policies wrote, even without rewards: conversations, and texts.
_NAMED_TRAJECTORIES = re.compile(r"rollouts?(?![a-z])|trajector(?:y|ies)|episodes?(?![a-z])")
_NAMED_PREDICTIONS = re.compile(r"(?:predictions?|preds)[_\-\d]*(?:\.|$)|(?:^| )(?:predictions?|preds?)[_\-]")
_NAMED_SAMPLES = re.compile(rf"{_NAMED_TRAJECTORIES.pattern}|generations?(?![a-z])|completions?(?![a-z])")
#: Names of files that are called like a model that wrote them.
_NAMED_MODEL = re.compile(
    r"(?:gpt-?\d[a-z]?|gpt-?j|davinci|claude|gemini|gemma|palm|llama|vicuna|alpaca-\d|mi[sx]tral|qwen|deepseek|falcon"
    r"|chatgpt|chatglm|glm-?\d|baichuan|internlm|phi-?\d|mpt|bloom|codegen|starcoder|wizard|flan|t5|opt|olmo|yi|cohere"
    r"|command-r|redpajama|pythia|o[134]-(?:mini|preview))(?![a-z])|(?<![a-z\d])\d+(?:\.\d+)?b(?![a-z\d])"
)
#: A prompt that only names a task.
_NAME = re.compile(r"\w+[_./-]\S+")
#: Longest prompt that is a group's name.
_GROUP_CHARS = 128
#: Fewest words of a prompt under the key of a group.
_PROMPT_WORDS = 4
#: Fewest responses to a prompt that only a policy's samples are.
_SEVERAL = 4
#: Gain in confidence of a verdict over a number, and of a model's score over the score of the task.
_VERDICT, _OF_MODEL = 0.05, 0.3
#: Fewest records in which a score that never changes is the task's, not the sample's.
_CONSTANT = 3
_HALF = 0.5
#: Length of a text that is more than an answer which was taken out of it.
_LONG = 80
#: Most different numbers of points that tasks give.
_FEW = 5
#: Keys under which a response may be an object, and a list of calls.
_ACTIONS = re.compile(r"(?:^|[._])actions?$")
_CALLS = re.compile(r"(?:^|[._])(?:result|response|output)s?$")
#: Words of a key under which a model's text stands.
_MODEL_WORDS = frozenset(
    {"model", "llm", "prediction", "predictions", "pred", "predicted", "generate", "generated", "sampled"}
)
#: Words of a key whose text was taken out of a response.
_EXTRACTED = frozenset({"prediction", "predictions", "pred", "parsed", "extracted", "norm"})
#: Keys that only a text which a model wrote has beside it.
_GENERATED = frozenset(
    {"generator", "finish_reason", "stop_reason", "rollout_id", "sample_idx", "sample_index", "model_id"}
    | {"reviewer_id"}
    | {"model_name_or_path", "output_token_count", "completion_tokens", "output_tokens"}
)
#: Words before ``results`` or ``outputs`` that name what others than the policy gave.
_NOT_SAMPLES = frozenset(
    {"tool", "tools", "search", "test", "tests", "retrieval", "judge", "eval", "function"}
)
#: Keys whose records are the turns of an episode.
_EPISODES = ("episode", "episode_id", "trajectory_id", "traj_id")


class _Candidate(NamedTuple):
    guess: Guess
    match: NameMatch


_SURE, _NONE = NameMatch(1.0, 0, 0, ""), NameMatch(0.0, len(GRADES), 0, "")
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


class FieldChoice:
    """Gives each field its key, one field after the other.

    Parameters
    ----------
    columns : list of KeyValues
    mapped : MappedAdapter or None
        Fields and keys that the user named.
    path : str
        The file's path, whose name may say that it holds samples.
    around : str
        Keys around the records in their document, which may name models.

    Attributes
    ----------
    taken : dict
        Field → its key.
    doubts : list of str
        Sentences on keys that have a field's name and not its values.
    """

    def __init__(
        self, columns: list[KeyValues], mapped: MappedAdapter | None, path: str = "", around: str = ""
    ) -> None:
        self._name = f"{around} {path.rpartition('/')[2]}".lower()
        self.doubts: list[str] = []
        self._columns = {column.key: column for column in columns}
        self._names = fields_of_keys(columns)
        self._whole = whole_texts(columns)
        self._named = dict(mapped.keys) if mapped is not None else {}
        self.taken = {
            meaning: _Candidate(Guess(meaning, key, 1.0, "named by --map"), _SURE)
            for meaning, key in self._named.items()
        }
        by_meaning: dict[str, list[KeyValues]] = {}
        unnamed: list[KeyValues] = []
        for column in columns:
            fields = self._names[column.key]
            for meaning in fields:
                by_meaning.setdefault(meaning, []).append(column)
            if not any(content.share(_TESTS[each][0], column.values) >= _LEAST_FIT for each in fields):
                unnamed.append(column)
        self._rewards = by_meaning.get("reward", [])
        for meaning, test in _TESTS.items():
            if meaning in self.taken:
                continue
            if meaning == "ground_truth":
                self._give_up_unsure_response()
            # A conversation without an answer is a prompt.
            named = [
                *by_meaning.get(meaning, ()),
                *(by_meaning.get("messages", ()) if meaning in ("prompt", "response") else ()),
            ]
            free = [column for column in named if self._is_free(meaning, column.key)]
            found = [self._candidate(meaning, column, test) for column in free]
            if any(found):
                self._take([candidate for candidate in found if candidate is not None])
            elif meaning in _BY_CONTENT:
                self._take_by_content(meaning, unnamed)
        self._take_group_as_prompt()
        self._group_by_prompt()
        self._doubt_shared_reward()
        self._doubt_equal_prompts()

    def likely_text(self) -> str:
        """Return the key with the longest texts that no field has, beside a reward; empty without one."""
        taken = {candidate.guess.key for candidate in self.taken.values()}
        texts = [
            (sum(len(str(value)) for value in column.values), column.key)
            for column in self._columns.values()
            if "." not in column.key
            and column.key not in taken
            and content.share(content.is_text, column.values) == 1.0
        ]
        return max(texts, default=(0, ""))[1] if "reward" in self.taken else ""

    def _take_group_as_prompt(self) -> None:
        """Let the group's name be the prompt, too, if it is a text of several words and no key holds one."""
        group = self.taken.get("group")
        column = self._columns.get(group.guess.key) if group is not None else None
        if column is None or "prompt" in self.taken or "messages" in self.taken:
            return
        if all(isinstance(value, str) and len(value.split()) >= _PROMPT_WORDS for value in column.values):
            guess = Guess("prompt", column.key, _BY_PROMPT, "the group's name is a text")
            self.taken["prompt"] = _Candidate(guess, _NONE)

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
            self.taken["group"] = _Candidate(guess, _NONE)

    def _doubt_shared_reward(self) -> None:
        """Say that several responses of a record have one reward: it may be that of all of them together."""
        reward = self.taken.get("reward")
        column = self._columns.get(reward.guess.key) if reward is not None else None
        if column is None or not self._has_groups() or "*" in column.key:
            return
        if all(_item_count(value) == 1 and not isinstance(value, list) for value in column.values):
            self.doubts.append(f"{column.key} is one number for several responses")

    def _doubt_equal_prompts(self) -> None:
        """Say that another key may as well hold the prompt."""
        guess = self.taken["prompt"].guess if "prompt" in self.taken else None
        if guess is None or guess.confidence >= GRADES[1] or guess.key not in self._columns:
            return
        close = [key for key, confidence in guess.others if guess.confidence - confidence < _EQUAL]
        close = [key for key in close if self._differ(guess.key, key)]
        if close:
            self.doubts.append(f"the prompt may as well be {close[0]}")

    @property
    def has_final_answer(self) -> bool:
        """True if a key with the word final holds the response, beside a sure reward."""
        answer, reward = self.taken.get("response"), self.taken.get("reward")
        is_final = answer is not None and "final" in plain_name(answer.guess.key).split("_")
        return is_final and reward is not None and reward.match.group < _UNSURE

    def are_rollouts(self) -> bool:
        """Return True if the records are samples of a policy, not a data set or a chat."""
        if any(self._named.get(name) in self._columns for name in ("prompt", "response", "messages")):
            return True  # the user says so
        answer = self.taken.get("response") or self.taken.get("messages")
        if answer is None or answer.guess.confidence < LEAST or self._are_spans():
            return False
        if "prompt" not in self.taken and any(doubt.endswith(UNEQUAL) for doubt in self.doubts):
            return False
        reward, prompt = self.taken.get("reward"), self.taken.get("prompt")
        is_sampled = "step" in self.taken or self._has_sampling_keys()
        if "response" not in self.taken:
            is_logged = "ground_truth" in self.taken and self._repeats_answer(answer.guess.key)
            is_named = _NAMED_TRAJECTORIES.search(self._name) is not None
            return reward is not None or self._is_choice() or is_named or is_logged
        group = answer.match.group
        if reward is not None and reward.guess.confidence >= LEAST:
            if group >= 2 and self._are_transitions(answer.guess.key):
                return True
            if group >= _UNSURE and reward.match.group >= _UNSURE:
                return False  # `answer` and `grade` are as well a task's
            # A name that other logs use as well needs a question beside it, or what only samples have.
            if is_sampled and "group" in self.taken and reward.match.group < _UNSURE:
                return True
            if "ground_truth" in self.taken and (
                reward.match.group == 0 or (group <= 1 and self._has_verdict())
            ):
                return True
            if _NAMED_TRAJECTORIES.search(plain_name(answer.guess.key)):
                return True
            asked = prompt is not None and prompt.match.group < 3
            if group < 2 and _says_model(answer.guess.key) and _is_beside(answer.guess.key, reward.guess.key):
                return True
            return asked or group == 0 or (group == 1 and (is_sampled or "group" in self.taken))
        is_named = _NAMED_SAMPLES.search(self._name) is not None
        is_of_model = _NAMED_MODEL.search(self._name) is not None
        is_judged = "ground_truth" in self.taken and (
            _says_model(answer.guess.key) or (prompt is not None and any(map(_says_model, self._columns)))
        )
        is_several = any(column.records > 1 for column in self._columns.values())
        is_named_so = is_of_model or self._is_model_named()
        if group == 0 and ((self._is_choice() and is_several) or (prompt is not None and is_named_so)):
            return True
        if (prompt is not None and _says_model(answer.guess.key)) or self._is_text_of_model(answer.guess.key):
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
            or (group < 2 and is_many and "group" in self.taken and _says_model(answer.guess.key))
            or (group < 2 and (is_predicted or (prompt is not None and is_many)))
            or (is_sampled and group == _UNSURE and self._is_generated() and self._is_model_named())
            or (is_sampled and (group == 0 or (group <= 2 and self._is_generated())))
        )

    def _repeats_answer(self, key: str) -> bool:
        """Return True if a key of a response holds the last message of a conversation again."""
        talks = self._columns[key].values if key in self._columns else []
        last = [(content.read_conversation(talk) or [{}])[-1].get("content") for talk in talks]
        named = [self._columns[each] for each, fields in self._names.items() if "response" in fields]
        return any(last and column.values == last for column in named)

    def _are_spans(self) -> bool:
        """Return True for the spans of a trace: a sample is made of several."""
        names = {plain_name(key) for key in self._columns if "." not in key}
        return {"start_time", "end_time", "type"} <= names and "reward" not in self.taken

    def _is_text_of_model(self, key: str) -> bool:
        """Return True for a text beside the id of its question, in a file that is called like a model."""
        beside = {plain_name(each) for each in self._columns}
        is_named = _NAMED_MODEL.search(self._name) is not None
        return is_named and plain_name(key) == "text" and "question_id" in beside

    def _has_verdict(self) -> bool:
        """Return True if the reward's name is one of those that hardly mean anything else."""
        reward = self.taken.get("reward")
        return reward is not None and reward.match.group < _UNSURE

    def _has_many_responses(self) -> bool:
        """Return True if each record holds so many responses to its prompt that a policy was sampled."""
        answer = self.taken.get("response")
        column = self._columns.get(answer.guess.key) if answer is not None else None
        prompt = self.taken.get("prompt")
        asked = self._columns.get(prompt.guess.key) if prompt is not None else None
        if asked is not None and any(_item_count(value) > 1 for value in asked.values):
            return False  # each has a prompt of its own
        return column is not None and all(_item_count(value) >= _SEVERAL for value in column.values)

    def _is_model_named(self) -> bool:
        """Return True if each record names the model that wrote its text."""
        names = {plain_name(key) for key in self._columns}
        return not names.isdisjoint(
            {"model_id", "model", "model_name", "model_name_or_path", "generator", "reviewer_id"}
        )

    def _are_transitions(self, key: str) -> bool:
        """Return True for the steps of an environment: an action, and what was seen before or after it."""
        seen = {"obs", "observation", "state", "next_obs", "next_observation", "next_state"}
        return plain_name(key) == "action" and bool(seen & set(map(plain_name, self._columns)))

    def equal_keys(self) -> tuple[str, ...]:
        """Return the keys of a decisive field that are about equally likely and hold other values."""
        for meaning in ("response", "reward"):
            candidate = self.taken.get(meaning)
            beside = meaning == "response" and "messages" in self.taken
            if candidate is None or meaning in self._named or beside:
                continue
            guess = candidate.guess
            close = [key for key, confidence in guess.others if guess.confidence - confidence < _EQUAL]
            is_judged = "ground_truth" in self.taken  # what is compared with it is taken out of a response
            if meaning == "response" and is_judged and not _is_extracted(guess.key):
                close = [key for key in close if not _is_extracted(key)]
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
        is_sampled = self._has_sampling_keys() and self._is_generated() and self._is_model_named()
        if (
            answer is not None
            and answer.match.group >= _UNSURE
            and "reward" not in self.taken
            and not is_sampled
            and not _says_model(answer.guess.key)
            and not self._is_text_of_model(answer.guess.key)
        ):
            del self.taken["response"]

    def _take(self, found: list[_Candidate]) -> None:
        if found[0].guess.meaning == "response":
            found = [self._with_full_text(each) for each in found]
        found.sort(key=lambda each: (-each.guess.confidence, each.guess.key.count("."), each.match.rank))
        best, *others = found
        next_best = tuple((other.guess.key, round(other.guess.confidence, 2)) for other in others[:3])
        self.taken[best.guess.meaning] = best._replace(guess=replace(best.guess, others=next_best))

    def _with_full_text(self, found: _Candidate) -> _Candidate:
        """Return a model's short answer with the key of the longer text of the model that holds it, if there is one."""
        column = self._columns.get(found.guess.key)
        if column is None or not _says_model(column.key) or not _are_short(column.values):
            return found
        for other in self._columns.values():
            if other.key == column.key or not _says_model(other.key) or len(other.values) != len(column.values):
                continue
            pairs = zip(other.values, column.values, strict=True)
            holds = [isinstance(long, str) and len(long) > _LONG and str(short) in long for long, short in pairs]
            if sum(holds) >= _LEAST_FIT * len(holds):
                reason = f"texts that hold those of {column.key}"
                return found._replace(guess=replace(found.guess, key=other.key, reason=reason))
        return found

    def _take_by_content(self, meaning: str, unnamed: list[KeyValues]) -> None:
        """Take the only key whose values are like the field's, if no field has its name."""
        if meaning == "reward" and not self._has_sure_answer():
            unnamed = [column for column in unnamed if self._is_verdict(column)]
        test, what = _TESTS[meaning]
        fits = {"reward": lambda column: _is_like_reward(column) or self._is_verdict(column), "response": self._has_rewards}.get(meaning, _is_like_messages)
        found = [column for column in unnamed if fits(column) and content.share(test, column.values) == 1.0]
        found = [column for column in found if self._is_free(meaning, column.key)]
        if len(found) != 1:
            return
        reason = f"the only key with {what}"
        guess = Guess(meaning, found[0].key, _BY_CONTENT[meaning], reason)
        group = 0 if meaning == "response" else 3  # a list with a reward for each item holds nothing else
        self.taken[meaning] = _Candidate(guess, NameMatch(guess.confidence, group, 0, ""))

    def _has_rewards(self, column: KeyValues) -> bool:
        """Return True for lists of several texts, if a key with a reward's name has a number for each."""
        counts = [*map(_item_count, column.values)]
        around = self._columns.get(column.key.rpartition(".")[0])
        if around is not None and any(listed_steps(value) for value in around.values):
            return False  # the thoughts of an episode
        return (
            ".*." not in column.key
            and max(counts) > 1
            and any(
                [*map(_item_count, reward.values)] == counts
                and content.share(content.is_reward, reward.values) == 1.0
                for reward in self._rewards
            )
        )

    def _is_verdict(self, column: KeyValues) -> bool:
        """Return True for truth values beside a response and a ground truth: whether they agree."""
        are_truths = all(isinstance(value, bool) for value in column.values)
        has_answer = not {"response", "messages"}.isdisjoint(self.taken)
        return are_truths and "." not in column.key and has_answer and self._has_ground_truth()

    def _asks_otherwise(self) -> bool:
        """Return True if another key has the word question in its name."""
        return any("question" in plain_name(key).split("_") for key in self._columns)

    def _has_ground_truth(self) -> bool:
        """Return True if a key has the name of a ground truth, whatever field takes it."""
        return any("ground_truth" in fields for fields in self._names.values())

    def _has_sure_answer(self) -> bool:
        answer = self.taken.get("response") or self.taken.get("messages")
        return answer is not None and answer.match.group < 2

    def _candidate(self, meaning: str, column: KeyValues, test: _Test) -> _Candidate | None:
        """Return the guess that a key holds a field; None if its name or its values are against it."""
        match = self._names[column.key].get(meaning, _NONE)
        if meaning == "response" and not match.confidence and _is_transcript(column):
            match = read_name("messages", column.key)._replace(group=2)
        if meaning == "prompt" and not match.confidence and _is_like_messages(column):
            match = read_name("messages", column.key)  # a conversation without an answer
        if not match.confidence or self._is_beside_messages(meaning, match):
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
        fit = content.share(fits, _written(values) if meaning == "response" else values)
        if fit < _LEAST_FIT or not self._suits(meaning, column, match):
            return None
        confidence = match.confidence - 0.5 * (1.0 - fit) - 0.1 * (1.0 - column.present)
        confidence -= _UNLIKELY if meaning == "reward" and match.group > 1 and _counts(column) else 0.0
        confidence -= (
            _UNLIKELY if meaning == "reward" and match.group > 0 and self._is_refuted(column) else 0.0
        )
        if meaning == "reward" and match.group > 0:
            confidence += _VERDICT if all(isinstance(value, bool) for value in values) else 0.0
            is_of_model = not {"model", "llm"}.isdisjoint(plain_name(column.key).split("_"))
            confidence += _OF_MODEL if is_of_model else 0.0
        if meaning == "prompt" and plain_name(column.key) == "query" and self._asks_otherwise():
            confidence -= _OF_MODEL  # SQL, most likely
        if meaning == "messages" and values != column.values:  # actions show what the key's name does not
            confidence = max(confidence, _BY_CONTENT[meaning])
        reason = f"{100 * fit * column.present:.0f} % of the records are {what}"
        reason += f" (named so by {match.source})" if match.source else ""
        return _Candidate(Guess(meaning, column.key, round(max(confidence, 0.0), 2), reason), match)

    def _is_beside_messages(self, meaning: str, match: NameMatch) -> bool:
        """Return True for a text that the conversation holds anyway; only sure names count beside it."""
        is_sure = match.confidence >= GRADES[0]
        if "messages" not in self.taken or meaning not in ("prompt", "response"):
            return False
        return not is_sure and not (meaning == "prompt" and self._has_steps())

    def _has_steps(self) -> bool:
        """Return True if the conversation is made of an episode's steps, which do not hold the task."""
        key = self.taken["messages"].guess.key
        column = self._columns.get(key)
        return column is not None and answers_in(key, column.values[0]) is not None

    def _suits(self, meaning: str, column: KeyValues, match: NameMatch) -> bool:
        """Return True unless a key's values contradict those of the fields found before."""
        outer = column.key.partition(".*.")[0] if ".*." in column.key else ""
        if outer and not self._is_of_samples(meaning, outer):
            return meaning == "reward" and self._has_groups() and self._is_one_per_response(column)
        if meaning == "prompt":
            if all(content.as_number(value) is not None for value in column.values):
                return False  # numbers of questions
            if not self._is_one_prompt(column):
                self.doubts.append(f"{column.key} {UNEQUAL}")
                return False
            return not plain_name(column.key).rpartition(".")[2].startswith("system")
        if meaning == "response":
            if self._is_column_of_steps(column):
                return False
            return match.group < _UNSURE or "." not in column.key  # `doc.answer` is part of the task
        if meaning == "reward":
            if match.group > 0 and (self._is_full_score(column) or self._is_of_task(column)):
                self.doubts.append(
                    f"{column.key} is not the reward: its values look like the points of each task"
                )
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

    def _is_full_score(self, column: KeyValues) -> bool:
        """Return True for a number above one that all records have before the response: a task gives no more."""
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
        """Return True for shares above one half of what verdicts beside them call wrong: how sure a model is."""
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
        counts = [*map(_item_count, column.values)]
        if beside is None or set(counts) == {1}:
            return True
        return counts == [*map(_item_count, beside.values)]

    def _is_one_per_response(self, column: KeyValues) -> bool:
        """Return True if a record has as many values as responses."""
        answer = self.taken.get("response") or self.taken.get("messages")
        lengths = {len(content.items_of(value)) for value in column.values}
        if answer is None or lengths == {1} or answer.guess.key not in self._columns:
            return lengths == {1}
        responses = self._columns[answer.guess.key].values
        return [*map(_item_count, column.values)] == [*map(_item_count, responses)]

    def _has_groups(self) -> bool:
        """Return True if a record holds several responses."""
        answer = self.taken.get("response") or self.taken.get("messages")
        column = self._columns.get(answer.guess.key) if answer is not None else None
        return column is not None and any(_item_count(value) > 1 for value in column.values)

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

    def _differ(self, key: str, other: str) -> bool:
        one, two = ([content.items_of(value) for value in self._columns[each].values] for each in (key, other))
        return one != two

    def _has_sampling_keys(self) -> bool:
        lists = {"logprobs", "response_token_ids", "response_tokens"} & self.taken.keys()
        names = map(plain_name, self._columns)
        return bool(lists) or any(_is_or_ends(name, SAMPLING) for name in names)

    def _is_generated(self) -> bool:
        """Return True if something says that a model wrote the texts."""
        names = {plain_name(key) for key in self._columns}
        named = any(_is_or_ends(name, _GENERATED) for name in names)
        return "step" in self.taken or "logprobs" in self.taken or named or self._is_choice()

    def _is_choice(self) -> bool:
        """Return True if the answer is one of an API's choices."""
        answer = self.taken.get("response") or self.taken.get("messages")
        return answer is not None and "choices." in answer.guess.key


def says_samples(name: str) -> bool:
    """Return True if a key or a file's name says that a policy wrote what it holds."""
    return _NAMED_SAMPLES.search(plain_name(name)) is not None


def says_model(path: str, keys: Collection[str]) -> bool:
    """Return True if a file is called like a model, or most of several keys are."""
    named = sum(_NAMED_MODEL.search(key.lower()) is not None for key in keys)
    is_file = _NAMED_MODEL.search(path.rpartition("/")[2].lower()) is not None
    return is_file or (len(keys) > 1 and 2 * named >= len(keys))


def _is_or_ends(name: str, names: Collection[str]) -> bool:
    words = name.rpartition(".")[2].split("_")
    return name in names or any("_".join(words[at:]) in names for at in range(1, len(words) - 1))


def _is_extracted(key: str) -> bool:
    """Return True if a key says that its text was taken out of a response."""
    return not _EXTRACTED.isdisjoint(plain_name(key).replace(".", "_").split("_"))


def _says_model(key: str) -> bool:
    """Return True if a key says that a model wrote the text under it."""
    return not _MODEL_WORDS.isdisjoint(plain_name(key).replace(".", "_").split("_"))


def _is_beside(key: str, other: str) -> bool:
    """Return True for two keys of the same object inside of a record."""
    return "." in key and key.rpartition(".")[0] == other.rpartition(".")[0]


def _written(values: list[Any]) -> list[Any]:
    """Return the values without blank texts, which are responses as well, if a third of them are not blank."""
    written = [value for value in values if not (isinstance(value, str) and not value.strip())]
    return written if 3 * len(written) >= len(values) else values


def _are_short(values: list[Any]) -> bool:
    return all(isinstance(value, (str, int, float)) and len(str(value)) <= _LONG // 2 for value in values)


def _item_count(value: Any) -> int:
    return len(content.items_of(value))


def _counts(column: KeyValues) -> bool:
    numbers = [content.as_number(value) for value in column.values]
    return content.is_counter([number for number in numbers if number is not None])


def _is_like_reward(column: KeyValues) -> bool:
    """Return True for differing small numbers under a key that does not name an id, a length or a time."""
    words = set(plain_name(column.key).replace(".", "_").split("_"))
    numbers = [number for value in column.values for number in content.numbers_of(value)]
    kinds = set(numbers)
    is_small = all(abs(number) <= 100 for number in numbers) and len(kinds) > 1
    if all(isinstance(value, bool) for value in column.values):
        words.discard("level")
    if len(kinds) > 2 and all(number >= 0 and number.is_integer() for number in kinds):
        return False  # the number of a choice or a class
    return is_small and "." not in column.key and not words & _NOT_REWARDS and not content.is_counter(numbers)


def _is_transcript(column: KeyValues) -> bool:
    """Return True for texts under a conversation's name that are no messages: a transcript is the response."""
    return all(
        isinstance(value, str) and len(value.split()) >= _PROMPT_WORDS for value in column.values
    ) and (not _is_like_messages(column))


def _is_like_messages(column: KeyValues) -> bool:
    return content.share(content.is_conversation, column.values) == 1.0
