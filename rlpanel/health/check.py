"""Run every rule over a snapshot."""

from __future__ import annotations

import logging

from rlpanel.health.declare import RULES
from rlpanel.health.finding import Finding
from rlpanel.health.look import Look
from rlpanel.health.rules import ends, groups, log, outliers, policy, text  # noqa: F401  (they register)
from rlpanel.settings import Health
from rlpanel.store.snapshot import Snapshot

logger = logging.getLogger(__name__)


def findings(snapshot: Snapshot, thresholds: Health, now: float) -> list[Finding]:
    """What the rules find in a run, alarms first, newest first among equals.

    Parameters
    ----------
    snapshot : Snapshot
    thresholds : Health
    now : float
        Seconds since the epoch; tells whether the last step is still being written, and for how long no line
        has come.

    Returns
    -------
    list of Finding
        A rule that fails is logged and finds nothing: one wrong rule must not hide what the others see.
    """
    look = Look(snapshot, thresholds, now)
    if not len(look.steps):
        return []
    found: list[Finding] = []
    for rule in RULES.values():
        try:
            found += rule.check(look)
        except Exception:
            logger.exception("the rule %s fails on %s", rule.name, snapshot.name)
    return sorted(found, key=lambda f: (f.severity != "alarm", -max(f.steps, default=0)))
