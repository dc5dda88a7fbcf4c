"""The table of findings, and findings as JSON."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

from rlpanel.findings.engine.finding import Finding, finding_dict
from rlpanel.queries.findings import findings

COLUMNS = [
    *("rule", "severity", "onset", "last", "ongoing", "rank", "category", "sentence", "metric", "filter"),
    *("uid", "finding"),
]
SYMPTOM = Finding(severity="warning", sentence="The reward falls.", steps=(8, 9), rule="sustained_change")
CAUSE = Finding(
    severity="alarm",
    sentence="Rank 1 differs.",
    evidence=("Mean reward 0.2.", "Others 0.9."),
    advice="Compare the weights.",
    steps=(7, 8, 9),
    ongoing=True,
    worst=np.int64(8),  # type: ignore[arg-type]
    rank=np.int64(1),  # type: ignore[arg-type]
    category="lang = zh",
    column="reward",
    where="rank = 1",
    uid="rank_1.jsonl:0",
    symptoms=(SYMPTOM,),
    rule="rank_differs",
)
WHOLE_RUN = Finding(severity="info", sentence="A field is odd.", rule="odd_fields")


def table_of(*found: Finding) -> pd.DataFrame:
    """Return the data frame that `Run.findings` makes of findings."""
    rows = [{**finding_dict(finding), "finding": finding} for finding in found]
    return findings.table(rows).frame(typed=True)


def test_the_table_has_one_row_per_finding_and_the_object_behind_it() -> None:
    table = table_of(CAUSE, WHOLE_RUN)
    assert list(table) == COLUMNS
    assert table.loc[0].to_dict() == {
        "rule": "rank_differs",
        "severity": "alarm",
        "onset": 7,
        "last": 9,
        "ongoing": True,
        "rank": 1,
        "category": "lang = zh",
        "sentence": "Rank 1 differs.",
        "metric": "reward",
        "filter": "rank = 1",
        "uid": "rank_1.jsonl:0",
        "finding": CAUSE,
    }
    assert table.loc[1, ["onset", "last", "rank"]].isna().all()


def test_types_of_the_columns_do_not_depend_on_the_findings() -> None:
    empty, full = table_of(), table_of(CAUSE, WHOLE_RUN)
    assert empty.dtypes.to_dict() == full.dtypes.to_dict()
    assert {name: str(empty[name].dtype) for name in ("onset", "last", "rank", "ongoing")} == {
        "onset": "Int64",
        "last": "Int64",
        "rank": "Int64",
        "ongoing": "bool",
    }


def test_an_empty_table_can_be_filtered() -> None:
    table = table_of()
    assert table[(table.severity == "alarm") & table.ongoing & (table.onset > 3)].empty


def test_json_holds_evidence_advice_and_symptoms() -> None:
    found = json.loads(json.dumps(finding_dict(CAUSE)))
    assert (found["evidence"], found["advice"]) == (
        ["Mean reward 0.2.", "Others 0.9."],
        "Compare the weights.",
    )
    assert (found["worst"], found["rank"], found["steps"]) == (8, 1, 3)
    assert [(each["rule"], each["onset"], each["symptoms"]) for each in found["symptoms"]] == [
        ("sustained_change", 8, [])
    ]
