"""Labels of a timeline: English in notebooks, and on the board in the language of the session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rlpanel.panels.language.labels import tr


@dataclass(frozen=True)
class TimelineLabels:
    """Labels in one language. Texts with braces are templates.

    Attributes
    ----------
    phases : mapping of str to str
        Labels of phases by name; a phase that is not listed is shown by its name.
    """

    phases: Mapping[str, str] = field(default_factory=dict)
    version: str = "version {version}"
    policy_version: str = "policy version {version}"
    lag: str = "lag {lag}"
    lag_or_more: str = "lag {lag} and more"
    failed: str = "failed"
    status: str = "status {status}"
    not_known: str = "not known"
    span: str = "{name} {seconds} s"
    total: str = "{seconds} s in total"
    mostly: str = "mostly"
    rollout: str = "rollout"
    rank: str = "rank {rank}"
    no_rank: str = "no rank"
    no_worker: str = "no worker"
    seconds: str = "seconds"


#: Labels of notebooks and scripts.
ENGLISH_LABELS = TimelineLabels()


def session_labels() -> TimelineLabels:
    """Return the labels in the language of the session that draws."""
    return TimelineLabels(
        phases={
            "queue": tr("queue"),
            "generation": tr("generation"),
            "tool": tr("tool"),
            "environment": tr("environment"),
            "score": tr("score"),
            "other": tr("other"),
        },
        version=tr("version {version}"),
        policy_version=tr("policy version {version}"),
        lag=tr("lag {lag}"),
        lag_or_more=tr("lag {lag} and more"),
        failed=tr("failed"),
        status=tr("status {status}"),
        not_known=tr("not known"),
        span=tr("{name} {seconds} s"),
        total=tr("{seconds} s in total"),
        mostly=tr("mostly"),
        rollout=tr("rollout"),
        rank=tr("rank {rank}"),
        no_rank=tr("no rank"),
        no_worker=tr("no worker"),
        seconds=tr("seconds"),
    )
