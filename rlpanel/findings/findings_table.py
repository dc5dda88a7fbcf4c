"""Findings as a data frame, and as plain dicts for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rlpanel.findings.engine.finding import Finding

if TYPE_CHECKING:
    import pandas as pd

#: Dtype of each column of the table but the last, which holds the objects.
_DTYPES: dict[str, Any] = {
    "rule": str,
    "severity": str,
    "onset": "Int64",
    "last": "Int64",
    "ongoing": bool,
    "rank": "Int64",
    "category": str,
    "sentence": str,
    "metric": str,
    "filter": str,
    "uid": str,
}


def findings_table(findings: Sequence[Finding]) -> pd.DataFrame:
    """Return one row per finding, in the given order.

    Parameters
    ----------
    findings : sequence of Finding

    Returns
    -------
    DataFrame
        ``finding`` is the `Finding` itself, with its evidence, advice and symptoms; for the other columns see
        `finding_dict`. ``onset``, ``last`` and ``rank`` are nullable integers.
    """
    import pandas as pd

    rows = [finding_dict(finding) for finding in findings]
    data = {name: pd.Series([row[name] for row in rows], dtype=dtype) for name, dtype in _DTYPES.items()}
    return pd.DataFrame(data | {"finding": pd.Series(list(findings), dtype=object)})


def finding_dict(finding: Finding) -> dict[str, Any]:
    """Return a finding as a dict of values that JSON can hold.

    ``steps`` is the number of affected steps, ``metric`` the column of the curve that shows the finding, and
    ``filter`` the expression for its samples. ``symptoms`` is a list of such dicts. For the other keys see
    `Finding`.
    """
    return {
        "rule": finding.rule,
        "title": finding.title,
        "subject": finding.subject,
        "severity": finding.severity,
        "sentence": finding.sentence,
        "evidence": list(finding.evidence),
        "advice": finding.advice,
        "steps": len(finding.steps),
        "onset": _integer(finding.onset),
        "last": _integer(finding.last),
        "ongoing": bool(finding.ongoing),
        "worst": _integer(finding.worst),
        "rank": _integer(finding.rank),
        "category": finding.category,
        "metric": finding.column,
        "filter": finding.where,
        "split": finding.split,
        "sort": finding.sort,
        "uid": finding.uid,
        "symptoms": [finding_dict(symptom) for symptom in finding.symptoms],
    }


def _integer(value: int | None) -> int | None:
    """Convert an integer of numpy, which JSON cannot hold."""
    return None if value is None else int(value)
