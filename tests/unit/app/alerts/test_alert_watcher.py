"""The link of an alert: it opens the finding or, for samples of another split, these samples."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from rlpanel.app.alerts.alert_watcher import alert_json
from rlpanel.findings.engine.finding import Finding
from rlpanel.sources.discovery.directory import RunInfo


def finding(split: str) -> Finding:
    return Finding(
        severity="warning",
        sentence="More samples are discarded.",
        steps=(4, 5),
        rule="unused_samples",
        where="status == 'timeout'",
        split=split,
    )


@pytest.mark.parametrize(
    ("split", "named"),
    [("", {"finding": [finding("").key]}), ("discarded", {"split": ["discarded"]})],
    ids=["own split", "discarded samples"],
)
def test_the_link_of_an_alert_opens_the_finding_or_the_samples_of_its_split(
    tmp_path: Path, split: str, named: dict[str, list[str]]
) -> None:
    run = RunInfo("exp/a&b", tmp_path, files=1, bytes=1, modified=0.0)
    query = parse_qs(urlsplit(alert_json(run, finding(split), 0.0, "http://board")["link"]).query)
    common = {"run": [run.name], "step": ["4"], "filter": ["status == 'timeout'"]}
    assert query == common | named
