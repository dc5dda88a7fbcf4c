"""Measures the findings of runs that are written step by step: delay, flapping, and what is sent.

python -m tests.bench.online [--against PATH] [--rounds N] [--size SIZE] [--record]
python -m tests.bench.online --show KIND SEED

After each step the rules are asked as the board and the alerts ask. The delay counts logged steps from the
true onset to the first check that has a warning near it. A finding flaps if it is raised again after its end
for steps of before, or is neither shown nor ended. One that is raised again for later steps is another
episode, and says so.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rlpanel.findings.check import CheckResult, check
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.raised import RaisedFinding, RaisedFindings, keys_of, sure
from rlpanel.settings import FindingSettings, Reading
from rlpanel.store.index.run_index import RunIndex
from tests.bench.harness import Figures, Task, run
from tests.bench.reported import ALL
from tests.bench.reported_runs.healthy_kinds import HEALTHY
from tests.bench.reported_runs.listed_kinds import LISTED
from tests.bench.reported_runs.simulation import Simulation, made_run
from tests.bench.reported_runs.unlisted_kinds import UNLISTED

#: Steps before the true onset in which a finding may begin.
_EARLY = 3


@dataclass
class Replay:
    """What the findings did while a run was written.

    Attributes
    ----------
    delay : int or None
        Logged steps from the onset to the first warning near it; None if there was none.
    raised, ended, flaps, again : int
        Findings that were raised, those that ended, those that came back or vanished without an end, and
        those that were raised again for later steps.
    leaders : int
        Changes of the leading finding.
    early : int
        Findings with an onset before the true one.
    sent, withdrawn : int
        Findings that were sent, and those that had ended within `HOLD` steps of it.
    milliseconds : list of float
        CPU time of each check.
    lines : list of str
        What was raised, sent and ended at each step.
    """

    delay: int | None = None
    raised: int = 0
    ended: int = 0
    flaps: int = 0
    again: int = 0
    leaders: int = 0
    early: int = 0
    sent: int = 0
    withdrawn: int = 0
    milliseconds: list[float] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def checks(made: Simulation, folder: Path, times: list[float]) -> Iterator[CheckResult]:
    """Write a run step by step, and yield the result of a check after each."""
    rows: dict[tuple[int, int], list[str]] = defaultdict(list)
    for row in made.rows:
        rows[row["step"], row["rank"]].append(json.dumps(row, ensure_ascii=False) + "\n")
    scalars = {row["step"]: json.dumps(row) + "\n" for row in made.scalar_rows}
    folder.mkdir()
    index = RunIndex(folder, folder.name, Reading(jobs=0, cache=False))
    previous: CheckResult | None = None
    for at in range(made.setup.steps):
        step = made.step_of(at)
        for rank in range(made.setup.ranks):
            _append(folder / f"rollout_data_rank_{rank}.jsonl", "".join(rows[step, rank]))
        _append(folder / "scalars.jsonl", scalars.get(step, ""))
        index.rescan()
        while index.read():
            pass
        now = index.snapshot.newest_line + 1.5
        began = time.process_time()
        previous = check(index.view, FindingSettings(), now, previous, index, RaisedFindings())
        times.append(1e3 * (time.process_time() - began))
        yield previous


def _append(path: Path, text: str) -> None:
    if text:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)


def replay(task: tuple[str, int]) -> Replay:
    """Write a run of a kind, and follow its findings."""
    name, seed = task
    made, found = made_run(ALL[name], seed), Replay()
    before, leader, shown = RaisedFindings(), "", set[str]()
    sent_at: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as root:
        for at, result in enumerate(checks(made, Path(root) / name, found.milliseconds)):
            assert result.raised is not None
            state = result.raised.by_key
            listed = {key for each in result.findings for key in keys_of(each)}
            for key, entry in state.items():
                old = before.by_key.get(key)
                if old is None:
                    found.raised += 1
                    found.early += _error(made, entry.finding) < -_EARLY and made.kind not in HEALTHY.values()
                    found.lines.append(f"{at}: raised {key}: {entry.finding.sentence}")
                elif entry.returns > old.returns:
                    is_other = _is_other_episode(entry)
                    found.again += is_other
                    found.flaps += not is_other
                    found.lines.append(f"{at}: {'another' if is_other else 'came back'} {key}")
                is_new = old is None or (old.ended is None and not old.is_back)
                if entry.ended is not None and is_new:
                    found.ended += 1
                    found.withdrawn += key in sent_at and at - sent_at[key] <= _EARLY + 1
                    found.lines.append(f"{at}: ended {key}")
            # An outlier at the begin of a sustained change is part of it.
            lasting = {
                key for key in shown & state.keys() if state[key].ended is None and not state[key].is_back
            }
            found.flaps += len({key for key in lasting - listed if not key.startswith("outlier:")})
            for finding in result.findings:
                certain = sure(finding, state)
                if certain is not None and certain.severity != "info" and finding.key not in sent_at:
                    sent_at[finding.key] = at
                    found.lines.append(f"{at}: sent {finding.key}")
            worst = next((each for each in result.findings if each.severity != "info"), None)
            if worst is not None:
                found.leaders += bool(leader) and worst.key != leader
                leader = worst.key
            if found.delay is None and at >= made.onset and any(_is_near(made, f) for f in result.findings):
                found.delay = at - made.onset
            before, shown = result.raised, listed
    found.sent = len(sent_at)
    return found


def _is_other_episode(entry: RaisedFinding) -> bool:
    """Return True if a finding that was raised again is about steps after its end."""
    ended, onset = entry.before and entry.before.ended, entry.finding.onset
    return ended is not None and onset is not None and onset > ended


def _error(made: Simulation, finding: Finding) -> int:
    at = 0 if finding.onset is None else round((finding.onset - made.setup.first) / made.setup.every)
    return at - made.onset


def _is_near(made: Simulation, finding: Finding) -> bool:
    assert made.kind is not None
    return finding.severity != "info" and -_EARLY <= _error(made, finding) <= made.kind.late


def figures_of(title: str, replays: Sequence[Replay]) -> Figures:
    """Return the figures of a group of runs."""
    delays = [each.delay for each in replays if each.delay is not None]
    totals: dict[str, Any] = {
        name: sum(getattr(each, name) for each in replays)
        for name in ("raised", "ended", "flaps", "leaders", "early", "sent", "withdrawn", "again")
    }
    figures: Figures = {f"{title}: runs": len(replays)}
    if delays:
        for share in (50, 75, 90):
            figures[f"{title}: delay, steps, p{share}"] = float(np.percentile(delays, share))
        figures[f"{title}: raised near the onset"] = len(delays)
    names = {
        "raised": "findings raised",
        "ended": "findings that ended",
        "flaps": "findings that flapped",
        "again": "findings raised again for later steps",
        "leaders": "changes of the leading finding",
        "early": "findings dated before the onset",
        "sent": "alerts sent",
        "withdrawn": "alerts that ended within four steps",
    }
    figures |= {f"{title}: {words}": totals[name] for name, words in names.items()}
    times = [each for replayed in replays for each in replayed.milliseconds]
    return figures | {f"{title}: check, CPU ms": float(np.mean(times))}


def measure(task: Task) -> Figures:
    """Replay runs of the listed, the unlisted and the healthy kinds."""
    seeds, kinds = task.pick((1, 2), (1, 100), (3, 100))
    figures: Figures = {}
    groups = {"listed": LISTED, "kept apart": UNLISTED, "healthy": HEALTHY}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for title, group in groups.items():
            tasks = [(name, seed) for name in list(group)[:kinds] for seed in range(seeds)]
            replays = list(pool.map(replay, tasks))
            if title == "healthy":
                for each in replays:
                    each.delay = None
            figures |= figures_of(title, replays)
    return figures


if __name__ == "__main__":
    if sys.argv[1:2] == ["--show"]:
        shown = replay((sys.argv[2], int(sys.argv[3])))
        print(*shown.lines, f"delay {shown.delay}, {shown.flaps} flapped", sep="\n")
    else:
        run(measure)
