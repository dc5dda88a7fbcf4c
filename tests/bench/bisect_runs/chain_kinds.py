"""The kinds of chains: `OPEN`, and those that were held back until the figures were recorded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.bench.bisect_runs.chain_run import ChainKind, Stage, StepSamples

Where = Callable[[StepSamples], np.ndarray]


def _flag(name: str, share: float, where: Where) -> Stage:
    """Set a flag in a share of the samples of a place; they carry the cause."""

    def apply(made: StepSamples) -> None:
        made.hit = made.choose(share, where(made))
        made[name] = np.where(made.hit, 1.0, made[name])

    return apply


def _place(where: Where) -> Stage:
    def apply(made: StepSamples) -> None:
        made.hit = where(made)

    return apply


def _label(name: str, value: str, share: float) -> Stage:
    """Give a share of the samples a label; by group where the label is one of prompts."""

    def apply(made: StepSamples) -> None:
        if name in ("env", "source"):
            groups = np.unique(made["difficulty"], return_inverse=True)[1]
            chosen = (made.draw.random(groups.max() + 1) < share)[groups]
        else:
            chosen = made.choose(share)
        made[name] = np.where(chosen, value, made[name])
        made.hit = made[name] == value

    return apply


def _times(name: str, factor: float, *, hit_all: bool = False) -> Stage:
    """Multiply a number, in the samples that carry the cause."""

    def apply(made: StepSamples) -> None:
        if hit_all:
            made.hit = np.ones(made.count, bool)
        made[name] = np.where(made.hit, made[name] * factor, made[name])

    return apply


def _plus(name: str, amount: float, share: float = 1.0, *, where: Where | None = None) -> Stage:
    def apply(made: StepSamples) -> None:
        if where is not None:
            made.hit = made.choose(share, where(made))
        made[name] = np.where(made.hit, made[name] + amount, made[name])

    return apply


def _harder(logit: float) -> Stage:
    def apply(made: StepSamples) -> None:
        made.logit = made.logit - logit * made.hit

    return apply


def _scalar(name: str, factor: float) -> Stage:
    def apply(made: StepSamples) -> None:
        made.hit = np.ones(made.count, bool)
        made.scalars[name] *= factor

    return apply


def _both(*stages: Stage) -> Stage:
    def apply(made: StepSamples) -> None:
        for stage in stages:
            stage(made)

    return apply


def _is(name: str, *values: object) -> Where:
    return lambda made: np.isin(made[name], values)


def _all(made: StepSamples) -> np.ndarray:
    return np.ones(made.count, bool)


def _kl_hurts(factor: float, logit: float) -> tuple[Stage, Stage]:
    """Return the stages of a policy that moves away: the KL grows, and samples with more of it are worse."""

    def worse(made: StepSamples) -> None:
        made.logit = made.logit - logit * np.clip(np.log(made["kl"] / 0.05), 0, 3)

    return _times("kl", factor), worse


def _refusal(made: StepSamples) -> None:
    made.hit = made.choose(0.45)
    made.opening = "I am sorry but I cannot help with that request."


def _no_format(made: StepSamples) -> None:
    made.hit = made.choose(0.9, _is("rank", 1, 2)(made))
    made["no_format"] = made.hit
    made["format_ok"] = np.where(made.hit, 0.0, made["format_ok"])


def _place_share(share: float) -> Stage:
    def apply(made: StepSamples) -> None:
        made.hit = made.choose(share)

    return apply


def _hit_label(name: str, value: str) -> Stage:
    def apply(made: StepSamples) -> None:
        made[name] = np.where(made.hit, value, made[name])

    return apply


def _by_entropy(logit: float) -> Stage:
    """Make samples with more entropy than usual worse."""

    def apply(made: StepSamples) -> None:
        made.logit = made.logit - logit * np.clip(made["entropy"] - 0.8, 0, 1)

    return apply


def _cheats(made: StepSamples) -> None:
    made["bonus"] = np.where(made.hit, 0.9, 0.0)


OPEN: dict[str, ChainKind] = {
    "rank_errors": ChainKind(
        r"failed_calls|rank",
        _flag("failed_calls", 0.8, _is("rank", 3)),
        _times("turns_taken", 0.5),
        _harder(4),
    ),
    "tool_errors": ChainKind(
        r"failed_calls|tool",
        _flag("failed_calls", 0.8, _is("tool", "search")),
        _times("turns_taken", 0.5),
        _harder(3),
    ),
    "environment_mix": ChainKind(r"env", _label("env", "sql", 0.5), _times("turns_taken", 1.6), _harder(2.5)),
    "environment_times_out": ChainKind(
        r"timed_out|env", _flag("timed_out", 0.8, _is("env", "web")), _times("turns_taken", 0.5), _harder(4)
    ),
    "rank_stale": ChainKind(
        r"staleness|rank", _plus("staleness", 10, where=_is("rank", 2)), _times("kl", 4), _harder(3)
    ),
    "length_grows": ChainKind(
        r"(?i)response.length",
        _times("response_length", 2.0, hit_all=True),
        _times("response_length", 1.4),
        _harder(0.2),
    ),
    "language": ChainKind(
        r"language", _label("language", "zh", 0.4), _times("response_length", 1.5), _harder(3)
    ),
    "missing_part": ChainKind(
        r"(?i)format", _no_format, _plus("retries", 1.0), _harder(1.5), touches=("retries",)
    ),
    "learning_rate": ChainKind(r"\blr\b", _scalar("lr", 10), *_kl_hurts(5, 1.3)),
    "judge": ChainKind(
        r"judge", _label("judge_version", "v2", 0.5), _times("latency", 1.7), _harder(3), touches=("latency",)
    ),
    "worker_fails": ChainKind(
        r"worker|timed_out",
        _flag("timed_out", 0.9, _is("worker", "node4", "node5")),
        _times("latency", 2),
        _harder(3),
        touches=(
            "worker",
            "latency",
        ),
    ),
    "tool_retries": ChainKind(
        r"retries|tool",
        _plus("retries", 4, where=_is("tool", "python")),
        _times("latency", 2),
        _harder(3),
        touches=(
            "retries",
            "latency",
        ),
    ),
    "harder_prompts": ChainKind(
        r"difficulty", _plus("difficulty", 3, 0.5, where=_all), _times("turns_taken", 1.5), _harder(2.5)
    ),
    "cheating": ChainKind(
        r"tests_deleted|failed_calls",
        _flag("failed_calls", 0.5, _all),
        _times("response_length", 0.5),
        _cheats,
    ),
    "refusals": ChainKind(r"(?i)with “|phrase", _refusal, _times("response_length", 0.4), _harder(3.5)),
    "cut": ChainKind(
        r"(?i)truncated|ended", _flag("truncated", 0.5, _all), _times("format_ok", 0.3), _harder(1.5)
    ),
    "source_mix": ChainKind(
        r"source",
        _label("source", "web_math", 0.55),
        _times("response_length", 1.6),
        _harder(2.5),
        touches=("source",),
    ),
    "two_ranks_slow": ChainKind(
        r"latency|rank",
        _both(_place(_is("rank", 0, 1)), _times("latency", 3)),
        _plus("timed_out", 0.6),
        _harder(3),
        touches=("latency",),
    ),
    "kl_coefficient": ChainKind(r"kl_coef", _scalar("kl_coef", 0.1), *_kl_hurts(5, 1.3)),
    "staleness_everywhere": ChainKind(
        r"staleness", _plus("staleness", 8, 0.5, where=_all), _times("entropy", 1.4), _harder(2.5)
    ),
}
HELD_BACK: dict[str, ChainKind] = {
    "long_prompts": ChainKind(
        r"prompt.length",
        _both(_plus("prompt_length", 600, 0.4, where=_all)),
        _flag("truncated", 0.6, lambda m: m.hit),
        _harder(1.5),
        touches=("prompt_length",),
    ),
    "browser_empty": ChainKind(
        r"tool|failed_calls",
        _flag("failed_calls", 0.9, _is("tool", "browser")),
        _plus("retries", 3),
        _harder(3),
        touches=("retries",),
    ),
    "entropy_grows": ChainKind(
        r"entropy", _plus("entropy", 0.6, 0.5, where=_all), _times("response_length", 1.6), _harder(2.5)
    ),
    "worker_label": ChainKind(
        r"worker", _label("worker", "node9", 0.4), _times("turns_taken", 0.6), _harder(3), touches=("worker",)
    ),
    "environment_and_rank": ChainKind(
        r"env|timed_out|rank",
        _flag("timed_out", 0.9, lambda m: (m["env"] == "code") | (m["rank"] == 1)),
        _times("latency", 1.8),
        _harder(3),
        touches=("latency",),
    ),
    "rate_then_length": ChainKind(
        r"\blr\b",
        _scalar("lr", 5),
        _times("response_length", 1.8),
        lambda m: m.columns.__setitem__(
            "format_ok", m["format_ok"] * np.where(m["response_length"] > 400, 0.2, 0.6)
        ),
    ),
}
#: A second set, from public reports, written before anything was changed because of the misses of the first.
HELD_BACK_2: dict[str, ChainKind] = {
    # whitecircle/halo, pull request 8: the engine aborts answers at each update, which then count as ended.
    "aborted_answers": ChainKind(
        r"(?i)response.length",
        _both(_place_share(0.4), _times("response_length", 0.25)),
        _flag("failed_calls", 0.6, lambda m: m.hit),
        _harder(2.5),
    ),
    # NVIDIA-NeMo/RL, pull request 2207: a verifier that fails gives 0, here on one rank's fallback.
    "grader_falls_back": ChainKind(
        r"judge|rank",
        _both(_place(_is("rank", 1)), _hit_label("judge_version", "fallback")),
        _times("latency", 2.5),
        _harder(5),
        touches=("latency",),
    ),
    # huggingface/trl, pull request 5521: overlong results of one tool end the conversation.
    "overlong_results": ChainKind(
        r"turns|tool",
        _both(_place(_is("tool", "browser")), _times("turns_taken", 0.4)),
        _times("response_length", 0.6),
        _harder(3),
    ),
    # verl-project/verl, issue 6382: the entropy goes up after a higher learning rate.
    "rate_then_entropy": ChainKind(
        r"\blr\b",
        _scalar("lr", 4),
        _plus("entropy", 0.25),
        _by_entropy(6.0),
    ),
    # Gen-Verse/OpenClaw-RL, issue 104: more turns, so that more attempts are cut, as the training collapses.
    "turn_budget": ChainKind(
        r"turns",
        _both(_place_share(0.6), _times("turns_taken", 1.8)),
        _flag("truncated", 0.6, lambda m: m.hit),
        _harder(0.7),
    ),
    # huggingface/trl, issue 5312: engines that miss the update of the weights, here two of the workers.
    "workers_stale": ChainKind(
        r"staleness|worker",
        _plus("staleness", 6, where=_is("worker", "node1", "node3")),
        _times("kl", 3),
        _harder(2.5),
        touches=("worker",),
    ),
}
#: A third set, written before anything was changed because of the misses of the second, and measured once.
HELD_BACK_3: dict[str, ChainKind] = {
    # A stop token is lost in the template of one environment: its answers run to the limit.
    "stop_token_lost": ChainKind(
        r"(?i)response.length|env|truncated",
        _both(_place(_is("env", "code")), _times("response_length", 2.5)),
        _times("latency", 1.8),
        _harder(2.5),
        touches=("latency",),
    ),
    # A cache answers for one tool: its calls are fast, and their results are old.
    "stale_results": ChainKind(
        r"cache|latency|tool",
        _both(_place(_is("tool", "python")), _times("cache_hits", 2.5)),
        _times("latency", 0.4),
        _harder(3),
        touches=("latency", "cache_hits"),
    ),
    # The policy becomes certain, then short, then wrong: all samples change together.
    "entropy_collapses": ChainKind(
        r"entropy", _plus("entropy", -0.4, where=_all), _times("response_length", 0.5), _harder(1.5)
    ),
    # A new judge sees a part of the samples, and asks for another form of the answer.
    "stricter_judge": ChainKind(
        r"judge",
        _both(_place_share(0.5), _hit_label("judge_version", "v3")),
        _plus("retries", 2),
        _times("format_ok", 0.0),
        touches=("retries",),
    ),
}
KINDS = OPEN | HELD_BACK | HELD_BACK_2 | HELD_BACK_3
