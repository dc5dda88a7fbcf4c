"""Kinds of causes of the gap between trainer and engine, and the verdict that names one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CauseKind:
    """Title, advice and dimension of a cause.

    Attributes
    ----------
    title, advice : str
        Its name, and what to do about it.
    dimension : str
        The dimension of `rlpanel.drift.gap_levels.DIMENSIONS` that shows it.
    """

    title: str
    advice: str
    dimension: str


#: The causes by key, in the order of the tree.
CAUSES = {
    "shift": CauseKind(
        "logprobs shifted by one token",
        "Logprobs of position t must belong to token t: check the slice [:-1] or [1:] on both sides.",
        "position in the response",
    ),
    "mask": CauseKind(
        "wrong loss mask",
        "Set the loss mask to 0 for tokens that the engine did not sample.",
        "position in the response",
    ),
    "template": CauseKind(
        "another prompt or template",
        "Compare the prompt's token ids of engine and trainer for one sample.",
        "position in the response",
    ),
    "place": CauseKind(
        "one rank, engine or data source",
        "Compare version, weights and settings of this one with those of the others.",
        "rank",
    ),
    "stale": CauseKind(
        "stale weights",
        "Lower the number of updates that a rollout may be old, or correct by importance weights.",
        "age of the weights",
    ),
    "sync": CauseKind(
        "failed weight sync",
        "Compare a checksum of each weight in engine and trainer after the sync of this step.",
        "step",
    ),
    "position": CauseKind(
        "grows with the position",
        "Compare position ids, rotary base, attention and cache precision for one long sample.",
        "position in the response",
    ),
    "temperature": CauseKind(
        "another temperature",
        "Compute the trainer's logprobs at the engine's temperature.",
        "surprisal",
    ),
    "support": CauseKind(
        "top-p or top-k in the engine",
        "Sample with top-p 1 and without top-k, or renormalise the trainer's logprobs likewise.",
        "surprisal",
    ),
    "routing": CauseKind(
        "few tokens, as by MoE routing",
        "Replay the engine's routing. If no experts are logged, log experts and rollout_experts.",
        "layers with other experts",
    ),
    "precision": CauseKind(
        "precision or quantisation",
        "Compare with an engine in the trainer's precision; below a mean of 0.05 nats it is usual.",
        "surprisal",
    ),
}


@dataclass(frozen=True)
class Cause:
    """One cause that fits.

    Attributes
    ----------
    key : str
        A key of `CAUSES`.
    share : float
        Share of the mean absolute gap that goes away without it, 0 to 1.
    sentence : str
        What was measured.
    clear : bool
        Whether the pattern allows to name it, if no other cause explains as much.
    """

    key: str
    share: float
    sentence: str
    clear: bool = True

    @property
    def title(self) -> str:
        """Name of the cause."""
        return CAUSES[self.key].title


@dataclass(frozen=True)
class Verdict:
    """The result of all tests.

    Attributes
    ----------
    cause : str
        Key of the cause; empty if the data do not show it.
    sentence : str
        The verdict in one or two sentences.
    advice : str
        What to do, or which experiment shows the cause.
    causes : tuple of Cause
        All that explain a part of the gap, the largest part first.
    unchecked : tuple of str
        Tests that need a field that is not logged.
    size, median, signed : float
        Mean and median of the absolute gap, and mean of the gap, of the trained tokens, in nats.
    """

    cause: str
    sentence: str
    advice: str
    causes: tuple[Cause, ...] = ()
    unchecked: tuple[str, ...] = ()
    size: float = float("nan")
    median: float = float("nan")
    signed: float = float("nan")
