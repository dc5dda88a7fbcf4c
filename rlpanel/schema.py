"""The vocabulary: the names of what a rollout log can hold, with shapes, units and aliases.

Adapters translate a trainer's own keys into these names; everything behind them (metrics, store,
views, docs) knows only these. Shapes: N samples, T response tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Kind = Literal["text", "tokens", "array", "number", "label", "key"]


@dataclass(frozen=True)
class Field:
    """One key of a rollout line.

    Attributes
    ----------
    name : str
        The name used everywhere in rlpanel.
    kind : str
        ``text`` (read back on demand), ``tokens`` (list of str, shape (T,)), ``array`` (float, shape
        (T,)), ``number`` (a sample column), ``label`` (a short text that is a column), ``key`` (places
        the sample: step, rank).
    label, unit, help : str
        What a person reads.
    aliases : tuple of str
        Other spellings met in real files.
    """

    name: str
    kind: Kind
    label: str
    help: str
    unit: str = ""
    aliases: tuple[str, ...] = ()


FIELDS: tuple[Field, ...] = (
    Field("step", "key", "step", 'Policy update that the sample belongs to; 12, 12.0 and "12" are the same.'),
    Field(
        "rank", "key", "rank", "Worker process that wrote the sample; taken from the file name where absent."
    ),
    Field("prompt", "text", "prompt", "What the policy was asked, chat template and pads included."),
    Field("response", "text", "response", "What the policy answered."),
    Field("ref_response", "text", "reference response", "The reference model's answer to the prompt."),
    Field("ground_truth", "text", "ground truth", "The expected answer, where the task has one."),
    Field(
        "response_tokens",
        "tokens",
        "tokens",
        "The response's tokens as convert_ids_to_tokens or decode gave them.",
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
        "Log-probability under the policy after this update, where `logprobs` are from before it.",
        "nats",
    ),
    Field(
        "rollout_logprobs",
        "array",
        "engine logprob",
        "Log-probability given by the engine that sampled the response.",
        "nats",
    ),
    Field("values", "array", "value", "The critic's value at each token.", "reward"),
    Field(
        "token_rewards",
        "array",
        "token reward",
        "The reward training used at each token: KL penalty, plus the score at the end.",
        "reward",
    ),
    Field("advantages", "array", "advantage", "The weight the loss gave each token.", ""),
    Field("returns", "array", "return", "The return the critic was trained towards.", "reward"),
    Field(
        "entropy",
        "array",
        "entropy",
        "Entropy of the policy's full distribution at each token.",
        "nats",
        aliases=("entropies",),
    ),
    Field("loss_mask", "array", "loss mask", "1 where the token took part in the loss."),
    Field("reward", "number", "reward", "The score of the whole response.", "reward"),
    Field("ref_reward", "number", "ref reward", "The score of the reference's response.", "reward"),
    Field("valid_reward", "number", "valid reward", "A held-out score of the response.", "reward"),
    Field("ref_valid_reward", "number", "ref valid reward", "A held-out score of the reference.", "reward"),
    Field("advantage", "number", "advantage", "The sample's advantage, one number for all tokens."),
    Field("truncated", "number", "truncated", "1 where generation was cut by the length limit."),
    Field("group", "label", "group", "Samples of one prompt in one step.", aliases=("group_id",)),
    Field("finish_reason", "label", "finish reason", "Why generation ended."),
    Field("split", "label", "split", "train or eval."),
)

BY_NAME: dict[str, Field] = {f.name: f for f in FIELDS}
CANONICAL: dict[str, str] = {key: f.name for f in FIELDS for key in (f.name, *f.aliases)}
TEXTS: tuple[str, ...] = tuple(f.name for f in FIELDS if f.kind == "text")
ARRAYS: tuple[str, ...] = tuple(f.name for f in FIELDS if f.kind == "array")
NUMBERS: tuple[str, ...] = tuple(f.name for f in FIELDS if f.kind == "number")
LABELS: tuple[str, ...] = tuple(f.name for f in FIELDS if f.kind == "label")

#: A text under an unknown key becomes a label column up to this many characters; longer ones stay in
#: the file and are shown with the sample.
LABEL_MAX = 128


@dataclass(frozen=True)
class Sample:
    """One sample, whole: texts and token arrays as read back from its line.

    Attributes
    ----------
    uid : str
        ``<file below the run>:<byte offset>``; stable across restarts.
    step, rank : int
        ``rank`` is -1 where neither the line nor the file name tells.
    file, line, offset : str, int, int
        Where the sample stands; lines count from 1, 0 while those before it are not counted yet.
    response_tokens : list of str or None
    logprobs, ref_logprobs, values, token_rewards, ... : ndarray of float64, shape (T,), or None
        None where not logged; each may differ in length from ``response_tokens``.
    reward, ref_reward, ... : float
        NaN where not logged.
    derived : dict
        Token arrays that follow from the logged ones (``advantages`` and ``returns`` by GAE), by name.
    columns : dict
        Every sample column of the store for this row, metrics included (``kl_k3_mean``, ...).
    extra : dict
        Keys of the line that rlpanel has no name for.
    notes : tuple of str
        What is odd about the sample, in words.
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
    reward: float = float("nan")
    ref_reward: float = float("nan")
    valid_reward: float = float("nan")
    ref_valid_reward: float = float("nan")
    advantage: float = float("nan")
    truncated: float = float("nan")
    finish_reason: str | None = None
    split: str | None = None
    derived: dict[str, np.ndarray] = field(default_factory=dict)
    columns: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where it stands in its file, in words."""
        return f"line {self.line:,}" if self.line else f"byte {self.offset:,}"

    def arrays(self) -> dict[str, np.ndarray]:
        """The token arrays by name: those that were logged, and those that follow from them."""
        found = ((name, getattr(self, name)) for name in ARRAYS)
        return {**self.derived, **{name: array for name, array in found if array is not None}}
