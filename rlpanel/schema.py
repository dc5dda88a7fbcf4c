"""The fields of a rollout log: names, kinds, units and aliases.

Adapters translate a trainer's own keys into these names. All other code (metrics, store, panels, docs) uses
only these names. Shapes: N samples, T response tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from rlpanel.folded_html import escaped, folded_text, number_table

Kind = Literal[
    "text",
    "tokens",
    "messages",
    "array",
    "number",
    "label",
    "key",
    "turns",
    "versions",
    "timing",
    "texts",
    "media",
    "alternatives",
    "experts",
    "judge_calls",
    "outputs",
]


@dataclass(frozen=True)
class Field:
    """A field of a rollout line.

    Attributes
    ----------
    name : str
        The name that rlpanel uses.
    kind : str
        ``text`` (read from the file on demand), ``tokens`` (list of str, shape (T,)), ``messages`` (list of
        chat messages), ``array`` (float, shape (T,)), ``number`` (a sample column), ``label`` (a short text,
        stored as a column), ``key`` (identifies the sample's step or rank). The others are of agents, see
        `rlpanel.sources.records.field_values`: ``turns``, ``versions``, ``timing``, ``texts``, ``media``.
        ``alternatives`` are the most probable tokens at each position, read on demand.
    label, unit, help : str
        Texts for display.
    aliases : tuple of str
        Other names of the field in existing log files.
    """

    name: str
    kind: Kind
    label: str
    help: str
    unit: str = ""
    aliases: tuple[str, ...] = ()


FIELDS: tuple[Field, ...] = (
    Field("step", "key", "step", 'Policy update that the sample belongs to; 12, 12.0 and "12" are the same.'),
    Field("rank", "key", "rank", "Worker process that wrote the sample; taken from the file name if absent."),
    Field("prompt", "text", "prompt", "The policy's input, including chat template and padding."),
    Field("response", "text", "response", "The policy's output."),
    Field("ref_response", "text", "reference response", "The reference model's answer to the prompt."),
    Field("ground_truth", "text", "ground truth", "The expected answer, if the task has one."),
    Field(
        "messages",
        "messages",
        "messages",
        "The conversation as chat messages, with tool calls and reasoning; they give missing texts.",
    ),
    Field(
        "response_tokens",
        "tokens",
        "tokens",
        "The response's tokens as returned by convert_ids_to_tokens or decode.",
        "tokens",
    ),
    Field("response_token_ids", "array", "token ids", "Vocabulary ids of the response's tokens."),
    Field(
        "logprobs",
        "array",
        "logprob",
        "Log-probability of each sampled token under the policy in training.",
        "nats",
    ),
    Field(
        "ref_logprobs",
        "array",
        "ref logprob",
        "Log-probability of each sampled token under the frozen reference.",
        "nats",
    ),
    Field(
        "old_logprobs",
        "array",
        "old logprob",
        "Log-probability under the policy before this update.",
        "nats",
    ),
    Field(
        "new_logprobs",
        "array",
        "new logprob",
        "Log-probability under the policy after this update, if `logprobs` are from before it.",
        "nats",
    ),
    Field(
        "rollout_logprobs",
        "array",
        "engine logprob",
        "Log-probability from the engine that sampled the response.",
        "nats",
    ),
    Field("values", "array", "value", "The critic's value at each token.", "reward"),
    Field(
        "token_rewards",
        "array",
        "token reward",
        "The reward used in training at each token: KL penalty, plus the score at the end.",
        "reward",
    ),
    Field("advantages", "array", "advantage", "The advantage that weighted each token in the loss.", ""),
    Field("returns", "array", "return", "The critic's training target.", "reward"),
    Field(
        "entropy",
        "array",
        "entropy",
        "Entropy of the policy's full distribution at each token.",
        "nats",
        aliases=("entropies",),
    ),
    Field(
        "loss_mask",
        "array",
        "loss mask",
        "1 for tokens that took part in the loss, else 0. The response length counts only the former.",
    ),
    Field(
        "teacher_logprobs",
        "array",
        "teacher logprob",
        "Log-probability of each sampled token under the teacher, in on-policy distillation.",
        "nats",
        aliases=("teacher_log_probs", "teacher_logps"),
    ),
    Field(
        "routing_mismatch",
        "array",
        "routing mismatch",
        "Share of a mixture-of-experts model's layers in which trainer and engine chose other experts.",
        "share",
    ),
    Field(
        "experts",
        "experts",
        "experts",
        "Ids of the experts that the trainer chose: for each token a list of layers with lists of ids.",
        aliases=("routed_experts",),
    ),
    Field(
        "rollout_experts",
        "experts",
        "engine's experts",
        "Ids of the experts that the engine chose. With both, routing_mismatch is computed.",
        aliases=("rollout_routed_experts",),
    ),
    Field(
        "correction_weights",
        "array",
        "correction weight",
        "Weight that the trainer's correction for the engine gave each token in the loss.",
        aliases=("rollout_is_weights", "tis_weights"),
    ),
    Field(
        "is_masked",
        "array",
        "masked by the correction",
        "1 for tokens that the trainer's correction took out of the policy's loss, else 0.",
        aliases=("is_filter_drop",),
    ),
    Field(
        "top_logprobs",
        "alternatives",
        "alternatives",
        "The most probable tokens at each position with their logprobs, as engines return them.",
        "nats",
    ),
    Field("reward", "number", "reward", "The score of the whole response.", "reward"),
    Field("ref_reward", "number", "ref reward", "The score of the reference's response.", "reward"),
    Field(
        "valid_reward",
        "number",
        "valid reward",
        "A held-out score of the response, not used in training.",
        "reward",
    ),
    Field(
        "ref_valid_reward",
        "number",
        "ref valid reward",
        "A held-out score of the reference's response.",
        "reward",
    ),
    Field("advantage", "number", "advantage", "The sample's advantage, one number for all tokens."),
    Field("truncated", "number", "truncated", "1 if the length limit ended the generation."),
    Field(
        "group",
        "label",
        "group",
        "Group of the sample: samples of the same prompt in a step.",
        aliases=("group_id",),
    ),
    Field(
        "finish_reason", "label", "finish reason", "Reason why the generation ended, such as stop or length."
    ),
    Field("split", "label", "split", "train, eval, or discarded for samples that were not trained on."),
    Field(
        "status",
        "label",
        "status",
        "How the rollout ended: ok, truncated, environment_error, tool_error, timeout or discarded.",
    ),
    Field("status_reason", "label", "status reason", "What failed, or why the trainer discarded the sample."),
    Field(
        "episode", "label", "episode", "Rollout that the sample belongs to, if several traces make up one."
    ),
    Field(
        "trajectory",
        "label",
        "trajectory",
        "Trace within the episode, if an agent has several that are scored one by one.",
    ),
    Field("agent", "label", "agent", "Name of the agent that wrote the sample, if there are several."),
    Field("branch", "label", "branch", "Name of the sample in the tree of its episode."),
    Field(
        "parent",
        "label",
        "parent",
        "Branch, trajectory or agent of the same episode from which the sample came.",
    ),
    Field(
        "branch_kind",
        "label",
        "kind of branch",
        "How the sample came from its parent: sub-agent, branch, compaction, retry or turn.",
    ),
    Field("turn_rewards", "turns", "turn rewards", "Reward of each turn: one number per assistant message."),
    Field(
        "policy_version",
        "versions",
        "policy version",
        "Version of the policy that sampled: a number, [first, last], or [[version, tokens], …].",
    ),
    Field(
        "trainer_version",
        "number",
        "trainer's policy version",
        "Version of the policy that the update started from; minus the oldest policy_version it is the lag.",
    ),
    Field(
        "timing",
        "timing",
        "timing",
        "Seconds in generation, tool, environment, queue and score; start (Unix time) and spans if known.",
        "seconds",
    ),
    Field("judge", "texts", "judge", "Texts of judges beside their scores, by name."),
    Field(
        "judge_calls",
        "judge_calls",
        "judge calls",
        "Calls of judges: name, model, request, answer, verdict, score, usage, seconds and error of each.",
    ),
    Field("verifier", "outputs", "verifier", "Output of the verifier, such as its test log, by name."),
    Field("images", "media", "images", "Images beside the messages: paths below the run, or data URLs."),
    Field("audios", "media", "audio", "Audio beside the messages, as images are."),
    Field("videos", "media", "videos", "Videos beside the messages, as images are."),
)

BY_NAME: dict[str, Field] = {f.name: f for f in FIELDS}
CANONICAL: dict[str, str] = {key: f.name for f in FIELDS for key in (f.name, *f.aliases)}
TEXTS: tuple[str, ...] = tuple(f.name for f in FIELDS if f.kind == "text")
ARRAYS: tuple[str, ...] = tuple(f.name for f in FIELDS if f.kind == "array")
NUMBERS: tuple[str, ...] = tuple(f.name for f in FIELDS if f.kind == "number")
LABELS: tuple[str, ...] = tuple(f.name for f in FIELDS if f.kind == "label")
MEDIA: tuple[str, ...] = tuple(f.name for f in FIELDS if f.kind == "media")

#: Label column of samples with remarks on fields: which are invalid and why, or how they were read.
FIELD_REMARKS = "field_remarks"

#: Prefixes of the columns that count one tool's calls and errors, such as ``tool_calls.search``.
TOOL_CALLS, TOOL_ERRORS = "tool_calls.", "tool_errors."

#: Prefixes of the columns with mean, minimum and maximum of an undeclared token array, such as
#: ``token_mean.token_data.x``.
TOKEN_MEAN, TOKEN_MIN, TOKEN_MAX = "token_mean.", "token_min.", "token_max."
TOKEN_COLUMNS = (TOKEN_MEAN, TOKEN_MIN, TOKEN_MAX)
#: Most of these arrays of a run that have columns, and the column with the number of a sample's other ones.
MAX_TOKEN_ARRAYS, TOKEN_ARRAYS_LEFT_OUT = 32, "token_arrays_left_out"

#: A text with an unknown key becomes a label column if it has at most this many characters. A longer text
#: stays in the file and is shown with the sample.
LABEL_MAX = 128


class Alternative(NamedTuple):
    """A token that the policy could have sampled: its text as logged, logprob, and id or -1."""

    text: str
    logprob: float
    id: int = -1


@dataclass(frozen=True)
class JudgeCall:
    """One call of a judge for one sample.

    Attributes
    ----------
    name, model : str
        ``judge`` without a name; the model is empty if it is not logged.
    request : tuple of (role, text)
        Messages that the judge got; empty if they are not logged.
    answer : str
        Text of the judge; empty if it is not logged.
    verdict : str
        As logged: a text, a number, or JSON; empty if it is missing or null.
    score : float
        Number of the verdict: 1 for yes, correct, pass and true, 0 for their opposites; NaN for others.
    prompt_tokens, answer_tokens, cost, seconds : float
        NaN if not logged; ``cost`` is in dollars.
    error : str
        Why the call failed; empty if it did not.
    verdict_logged : bool
        False for a text of a judge in a log that has no place for its verdict, which is then not missing.
    """

    name: str = "judge"
    model: str = ""
    request: tuple[tuple[str, str], ...] = ()
    answer: str = ""
    verdict: str = ""
    score: float = float("nan")
    prompt_tokens: float = float("nan")
    answer_tokens: float = float("nan")
    cost: float = float("nan")
    seconds: float = float("nan")
    error: str = ""
    verdict_logged: bool = True

    @property
    def is_missing(self) -> bool:
        """True if the call gave no verdict, or failed."""
        return bool(self.error) or (self.verdict_logged and not self.verdict)


@dataclass(frozen=True)
class Sample:
    """A sample with all of its texts and token arrays, read from its line.

    Attributes
    ----------
    uid : str
        ``<file below the run>:<byte offset>``; stable across restarts.
    step, rank : int
        ``rank`` is -1 if neither the line nor the file name contains it.
    file, line, offset : str, int, int
        The sample's file, line number from 1, and byte offset; ``line`` is 0 until it is known.
    response_tokens : list of str or None
    messages : list of dict
        The conversation in the shape of `rlpanel.sources.records.messages.Message`; empty if only texts
        were logged.
    prompt_messages : int
        Number of messages before the response; -1 without messages.
    logprobs, ref_logprobs, values, token_rewards, ... : ndarray of float64, shape (T,), or None
        None if not logged; each may differ in length from ``response_tokens``.
    reward, ref_reward, ... : float
        NaN if not logged.
    turn_rewards : ndarray of float64, shape (n_turns,), or None
        A turn is one message of the policy; NaN for a turn without a reward.
    policy_versions : tuple of (version, tokens)
        Versions of the policy that sampled, run-length over the response's tokens. ``tokens`` is -1 where
        only one number, or the first and the last version, was logged.
    timing : dict of str to float
        Seconds by phase (generation, tool, environment, queue, score); ``start`` is in Unix seconds.
    spans : tuple of (phase, start, end)
        In seconds since the rollout's start; empty if not logged.
    judge : dict of str to str
        Texts of judges by name.
    judge_calls : tuple of JudgeCall
        Empty if none is logged.
    verifier : dict of str to str
        Output of the verifier by name, such as its test log.
    images : tuple of dict
        Images logged beside the messages, in the shape of `rlpanel.sources.records.embedded_media.Image`.
    media : tuple of dict
        Audio and video logged beside the messages, in the shape of
        `rlpanel.sources.records.embedded_media.Medium`.
    derived : dict
        Token arrays computed from the logged ones (``advantages`` and ``returns`` by GAE), by name.
    token_arrays : dict of str to ndarray, shape (T,)
        Undeclared lists of the line that are as long as the tokens, under their own names.
        Whole numbers are int64 and booleans bool; others are float64 with NaN for null.
    top_logprobs : tuple of tuple
        The alternatives at each position, the most probable first; empty if not logged.
    columns : dict
        All sample columns of the store for this row, including metrics (``kl_k3_mean``, ...).
    extra : dict
        Values of the line's keys that are not fields of rlpanel.
    notes : tuple of str
        Remarks on oddities of the sample.
    """

    uid: str
    step: int
    rank: int = -1
    group: str | None = None
    file: str = ""
    line: int = 0
    offset: int = 0
    prompt: str | None = None
    response: str | None = None
    ref_response: str | None = None
    ground_truth: str | None = None
    response_tokens: list[str] | None = None
    messages: Sequence[Mapping[str, Any]] = ()
    prompt_messages: int = -1
    response_token_ids: np.ndarray | None = None
    logprobs: np.ndarray | None = None
    ref_logprobs: np.ndarray | None = None
    old_logprobs: np.ndarray | None = None
    new_logprobs: np.ndarray | None = None
    rollout_logprobs: np.ndarray | None = None
    values: np.ndarray | None = None
    token_rewards: np.ndarray | None = None
    advantages: np.ndarray | None = None
    returns: np.ndarray | None = None
    entropy: np.ndarray | None = None
    loss_mask: np.ndarray | None = None
    teacher_logprobs: np.ndarray | None = None
    routing_mismatch: np.ndarray | None = None
    correction_weights: np.ndarray | None = None
    is_masked: np.ndarray | None = None
    reward: float = float("nan")
    ref_reward: float = float("nan")
    valid_reward: float = float("nan")
    ref_valid_reward: float = float("nan")
    advantage: float = float("nan")
    truncated: float = float("nan")
    finish_reason: str | None = None
    split: str | None = None
    status: str | None = None
    status_reason: str | None = None
    episode: str | None = None
    agent: str | None = None
    trajectory: str | None = None
    branch: str | None = None
    parent: str | None = None
    branch_kind: str | None = None
    trainer_version: float = float("nan")
    turn_rewards: np.ndarray | None = None
    policy_versions: tuple[tuple[int, int], ...] = ()
    timing: dict[str, float] = field(default_factory=dict)
    spans: tuple[tuple[str, float, float], ...] = ()
    judge: dict[str, str] = field(default_factory=dict)
    judge_calls: tuple[JudgeCall, ...] = ()
    verifier: dict[str, str] = field(default_factory=dict)
    images: tuple[Mapping[str, Any], ...] = ()
    media: tuple[Mapping[str, Any], ...] = ()
    derived: dict[str, np.ndarray] = field(default_factory=dict)
    token_arrays: dict[str, np.ndarray] = field(default_factory=dict)
    top_logprobs: tuple[tuple[Alternative, ...], ...] = ()
    columns: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The sample's line number in its file, or its byte offset if the line number is not known yet."""
        return f"line {self.line:,}" if self.line else f"byte {self.offset:,}"

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the token arrays of the schema, logged or derived, by name; see also ``token_arrays``."""
        logged = ((name, getattr(self, name)) for name in ARRAYS)
        return {**self.derived, **{name: array for name, array in logged if array is not None}}

    def _repr_html_(self) -> str:
        """Return the sample for a notebook: its place, its numbers, and its texts folded."""
        place = [f"step {self.step}", f"rank {self.rank}" if self.rank >= 0 else "", self.group or ""]
        place += [f"{len(self.response_tokens):,} tokens" if self.response_tokens is not None else ""]
        head = " · ".join(escaped(part) for part in [*place, self.place] if part)
        logged = {name: getattr(self, name) for name in NUMBERS}
        computed = {name: value for name, value in self.columns.items() if isinstance(value, float)}
        texts = [(name, text) for name in TEXTS if (text := getattr(self, name))]
        return (
            f"<div><b>{escaped(self.uid)}</b><br>{head}{number_table(logged | computed)}"
            f"{''.join(folded_text(name.replace('_', ' '), text) for name, text in texts)}"
            f"{''.join(f'<p>{escaped(note)}</p>' for note in self.notes)}</div>"
        )
