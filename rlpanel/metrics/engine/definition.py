"""States of every number what it compares, what it is averaged over, and where it is not defined.

A metric declares the texts that do not follow from its inputs, and `AGENT_COLUMNS` those of columns that are
counted when a line is read. The others are generated here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rlpanel import schema
from rlpanel.metrics.engine.constants import NAMES
from rlpanel.metrics.engine.metric import (
    METRICS,
    Good,
    Metric,
    reduced_columns,
    registry_cache,
    zero_means_missing,
)
from rlpanel.metrics.engine.ragged import UNSCORED


@dataclass(frozen=True)
class AgentColumn:
    """Description of a sample column: label, unit, meaning, and where it is not defined."""

    name: str
    label: str
    unit: str
    help: str
    undefined: str
    good: Good = ""


_CONVERSATION = "a sample whose response was not logged as messages"
_TIMING = "a sample without these seconds"
_JUDGES = "a sample that logs none of them"
_VERSION = "a sample without `policy_version`"

AGENT_COLUMNS = (
    AgentColumn("turns", "turns", "turns", "Number of the policy's messages in the response.", _CONVERSATION),
    AgentColumn("tool_calls", "tool calls", "calls", "Number of tool calls of the policy.", _CONVERSATION),
    AgentColumn(
        "tool_errors",
        "tool errors",
        "errors",
        "Number of tool results that are errors: logged as such, or only an error by their text.",
        "a sample with tool calls whose results were not logged",
        "down",
    ),
    AgentColumn("images", "images", "images", "Number of images of the sample.", "a sample without images"),
    AgentColumn("audios", "audio", "recordings", "Number of audio recordings.", "a sample without audio"),
    AgentColumn("videos", "videos", "videos", "Number of videos of the sample.", "a sample without videos"),
    AgentColumn(
        "context_tokens",
        "tokens of others",
        "tokens",
        "Response tokens that the policy did not write: those of tools and environments.",
        "a sample of which this is not known: without a loss mask, or with one that excludes all tokens",
    ),
    AgentColumn(
        "policy_version_min", "oldest policy version", "", "Oldest policy that wrote the sample.", _VERSION
    ),
    AgentColumn(
        "policy_version_max", "newest policy version", "", "Newest policy that wrote the sample.", _VERSION
    ),
    AgentColumn(
        "trainer_version", "trainer's policy version", "", "Policy that the update started from.", _VERSION
    ),
    AgentColumn(
        "lag",
        "lag",
        "versions",
        "Versions between the policy that trained on the sample and the oldest one that wrote it.",
        "a sample without both versions, and trainers whose versions and steps count different things",
    ),
    AgentColumn("seconds", "time", "seconds", "Time of the whole rollout.", _TIMING),
    AgentColumn("generation_seconds", "generation time", "seconds", "Time of the engine.", _TIMING),
    AgentColumn("tool_seconds", "tool time", "seconds", "Time in tools.", _TIMING),
    AgentColumn("environment_seconds", "environment time", "seconds", "Time in the environment.", _TIMING),
    AgentColumn("queue_seconds", "queue time", "seconds", "Time in which the rollout waited.", _TIMING),
    AgentColumn("score_seconds", "scoring time", "seconds", "Time of the reward functions.", _TIMING),
    AgentColumn("judge_calls", "judge calls", "calls", "Number of calls of judges.", _JUDGES),
    AgentColumn(
        "judge_missing",
        "missing verdicts",
        "calls",
        "Number of calls of judges that failed or gave no verdict.",
        _JUDGES,
        "down",
    ),
    AgentColumn("judge_tokens", "tokens of judges", "tokens", "Tokens that judges read and wrote.", _JUDGES),
    AgentColumn("judge_seconds", "time of judges", "seconds", "Sum of the times of judges.", _JUDGES),
    AgentColumn(
        "judge_disagreement",
        "disagreement of judges",
        "",
        "Largest minus smallest score of the sample's judges; a judge's score is the mean of its calls.",
        "a sample with scores of fewer than two judges",
    ),
    AgentColumn(
        "verifier_outputs", "outputs of the verifier", "texts", "Number of texts of the verifier.", _JUDGES
    ),
    AgentColumn("start_time", "start", "Unix seconds", "When the rollout began.", _TIMING),
)


_PAIRS = {
    frozenset(fields): text
    for fields, text in (
        (("logprobs", "ref_logprobs"), "policy and frozen reference, at each sampled token"),
        (("new_logprobs", "old_logprobs"), "policy after and before the update, at each sampled token"),
        (("logprobs", "rollout_logprobs"), "trainer's and sampling engine's logprob of the same token"),
        (("values", "returns"), "the critic's value and the return that it should predict, at each token"),
        (("reward", "ref_reward"), "reward of the sample and of the reference's answer to the same prompt"),
        (
            ("valid_reward", "ref_valid_reward"),
            "held-out reward of the sample and of the reference's answer to the same prompt",
        ),
    )
}
#: Inputs that order the others and are not compared.
_ORDER = frozenset({"micro_batch"})
_SAMPLES = "the step's samples that have it, all equally"
_ZEROS = "; a run with zeros only"


@dataclass(frozen=True)
class Definition:
    """Definition of a number, in short texts.

    Attributes
    ----------
    pair, quantity : str
        What it compares or, if it is about one quantity only, that quantity; the other one is empty.
    over : str
        What it is averaged over.
    undefined : str
        Where it is not defined.
    """

    pair: str = ""
    quantity: str = ""
    over: str = ""
    undefined: str = ""

    @property
    def compares(self) -> str:
        """The pair or the quantity."""
        return self.pair or self.quantity


NO_DEFINITION = Definition()


def _logged(quantity: str, undefined: str) -> Definition:
    return Definition("", quantity, _SAMPLES, undefined)


#: Where a shift of logprobs is not defined.
_SHIFT = "fewer than 8 tokens that are finite in both arrays, arrays of unequal length, or a constant array"

#: Definitions of sample columns that are logged, or counted when a line is read.
COLUMNS: dict[str, Definition] = {
    "reward": _logged("the score of the whole response, as logged", "a sample without a finite reward"),
    "ref_reward": _logged(
        "the score of the reference's response, as logged", "a sample without a finite score of the reference"
    ),
    "valid_reward": _logged("a held-out score, as logged", "a sample without a finite held-out score"),
    "ref_valid_reward": _logged(
        "a held-out score of the reference's response, as logged",
        "a sample without a finite held-out score of the reference",
    ),
    "advantage": _logged(
        "the advantage of the whole response, as logged",
        "a sample without a finite advantage; advantages of tokens have their own column",
    ),
    "truncated": _logged(
        "whether the length limit ended the response, as logged", "a sample without `truncated`"
    ),
    "response_tokens": _logged(
        "tokens that the policy wrote", "a sample without tokens, token ids and logprobs"
    ),
    "trajectory_tokens": _logged(
        "all response tokens, including those of tools and environments",
        "a sample without a loss mask, or without tokens",
    ),
    "prompt_chars": _logged("characters of the prompt", "a sample without a prompt"),
    "response_chars": _logged("characters of the response", "a sample without a response"),
    "invalid_chars": _logged("U+FFFD characters of the response", "a sample without a response"),
    "special_tokens": _logged("special tokens in the response's text", "a sample without a response"),
    "prompt_echo": _logged(
        "whether the response contains the second half of the prompt",
        "a sample without a response, or with a prompt of fewer than 32 characters",
    ),
    "foreign_script": _logged(
        "letters of the response, by script", "a sample without a prompt, or with a response without letters"
    ),
    "engine_shift": Definition(
        "logprobs of the trainer and of the sampling engine, shifted by one token and not",
        "",
        _SAMPLES,
        _SHIFT,
    ),
    "ref_shift": Definition(
        "logprobs of the policy and of the reference, shifted by one token and not", "", _SAMPLES, _SHIFT
    ),
    "token_arrays_left_out": _logged(
        "lists of one value per token that have no columns", "a sample without such lists"
    ),
    "ended": _logged(
        "whether the response ended before the length limit",
        "a sample without `truncated` and without a finish reason that is known",
    ),
}
COLUMNS |= {
    column: _logged(
        f"tokens in the loss mask whose `{name}` are missing or infinite", "a sample without such tokens"
    )
    for name, column in UNSCORED.items()
}
COLUMNS |= {
    c.name: _logged(c.help[0].lower() + c.help[1:].removesuffix("."), c.undefined) for c in AGENT_COLUMNS
}


def of_metric(m: Metric) -> Definition:
    """Return the definition of a metric: declared texts, and generated ones where none is declared."""
    pair, quantity = (m.compares, m.quantity) if m.compares or m.quantity else _pair_or_quantity(m)
    return Definition(pair, quantity, m.over or _over(m), m.undefined or _undefined(m))


@registry_cache
def inputs(m: Metric) -> tuple[str, ...]:
    """Return what a metric needs, directly or by way of other metrics: fields, counted columns, constants."""
    found: list[str] = []
    for name, base in _named(*m.needs, *m.constants):
        found += inputs(base) if base else [name]
    return tuple(dict.fromkeys(found))


@registry_cache
def optional_inputs(m: Metric) -> tuple[str, ...]:
    """Return what a metric uses besides its `inputs` if it is known."""
    found: list[str] = []
    for name, base in _named(*m.optional):
        found += [*inputs(base), *optional_inputs(base)] if base else [name]
    for _, base in _named(*m.needs):
        found += optional_inputs(base) if base else []
    return tuple(name for name in dict.fromkeys(found) if name not in inputs(m))


def _named(*names: str) -> Iterator[tuple[str, Metric | None]]:
    """Return the names with the metric that each is computed by; None for other names."""
    for name in names:
        yield name, METRICS.get(name.rpartition("_")[0] if name in reduced_columns() else name)


def _pair_or_quantity(m: Metric) -> tuple[str, str]:
    fields = frozenset(inputs(m)) - _ORDER - NAMES
    if fields in _PAIRS:
        return _PAIRS[fields], ""
    if fields == {"reward"} and m.lazy:
        return "rewards of the samples of one group", ""
    names = " and ".join(map(_label, sorted(fields)))
    return (names, "") if len(fields) > 1 else ("", names)


def _label(name: str) -> str:
    return schema.BY_NAME[name].label if name in schema.BY_NAME else f"`{name}`"


def _over(m: Metric) -> str:
    if m.level == "token":
        if not m.reductions:
            return "nothing: each token shows its own value, and there is no column"
        tokens = "the sample's tokens in the loss mask" if m.masked else "all tokens of the sample"
        return f"{tokens} ({' or '.join(m.reductions)}); in a step, over its samples, all equally"
    if m.level == "sample":
        return _SAMPLES
    if m.level == "group":
        return "the group's samples that have a reward, all equally"
    if m.lazy:
        return "the step's groups with at least two rewards, all equally"
    if _pools_tokens(m):
        return "all tokens in the loss mask of the step, all equally"
    return "the step's samples that have its inputs, all equally"


def _undefined(m: Metric) -> str:
    zeros = _ZEROS if m.zero_means_missing or zero_means_missing() & set(m.needs) else ""
    if m.level == "token" and not m.reductions:
        return f"a token without {' or '.join(map(_label, m.needs))}"
    if m.level == "token" and UNSCORED.keys() >= set(m.needs):
        return _undefined_of_logprobs(m)
    if m.level == "token" and len(m.needs) > 1:
        return "a sample without both arrays in equal length, or with a missing or infinite number in them"
    if m.level == "token":
        return f"a sample without this array, or with a missing or infinite number in it{zeros}"
    if m.level == "sample":
        return f"a sample without {' or '.join(map(_label, m.needs))}{zeros}"
    if m.level == "group":
        return "a group of fewer than two rewards"
    if m.lazy:
        return "a step without such a group"
    if _pools_tokens(m):
        whole = not UNSCORED.keys() >= set(inputs(m))
        left_out = "samples with a missing or infinite token" if whole else "tokens without a finite number"
        return f"a step without these arrays; {left_out} are left out{zeros}"
    return f"a step without such samples{zeros}"


def _undefined_of_logprobs(m: Metric) -> str:
    if len(m.needs) > 1:
        text = "arrays of unequal length, or without a token finite in both"
        return f"{text}; for the sum, with one that is not" if "sum" in m.reductions else text
    text = "a sample without a finite number in this array"
    return f"{text}; for the sum, with one that is not finite" if "sum" in m.reductions else text


def _pools_tokens(m: Metric) -> bool:
    return bool(m.needs) and reduced_columns() >= set(m.needs) - _ORDER
