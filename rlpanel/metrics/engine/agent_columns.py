"""Describes the sample columns of agents, which are counted when a line is read."""

from __future__ import annotations

from dataclasses import dataclass

from rlpanel.metrics.engine.metric import Good


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
    AgentColumn("start_time", "start", "Unix seconds", "When the rollout began.", _TIMING),
)
