"""Opens folders as a stranger does, without an option, and compares what is read with expected numbers."""

from __future__ import annotations

import math
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from rlpanel import open_run
from rlpanel.errors import RLPanelError

#: Verdicts, best first. *command*: nothing was opened, but the printed option opens it right. *message*:
#: nothing was opened. *wrong*: it was opened, and numbers or texts differ.
VERDICTS = ("right", "command", "message", "wrong", "crash")
_OPTION = re.compile(r"--map[ =]['\"]?([\w.=,/*@+-]+)|--(?:default-)?step[ =](\d+)")


@dataclass(frozen=True)
class Verdict:
    """How a folder opened; ``why`` says what differs, or what was printed."""

    kind: str
    why: str = ""

    @property
    def short(self) -> str:
        """What differs in a few words; of a message its beginning."""
        text = self.why.removeprefix("DIR ").partition(" Accepted:")[0]
        return text[:100] if self.kind == "wrong" else text.partition("Seen: ")[2][:70] or text[:70]


def judge(folder: Path, expected: Mapping[str, Any]) -> Verdict:
    """Open a folder and say whether rows, rewards, texts and counts are as expected.

    If nothing is opened, the printed option is tried once.
    """
    verdict = _opened(folder, expected)
    found = dict.fromkeys(_mapping(verdict.why)) if verdict.kind == "message" else {}
    for option in found:
        if _opened(folder, expected, option).kind == "right":
            return Verdict("command", f"--map {option}")
    return verdict


def _mapping(message: str) -> list[str]:
    """Return the values of ``--map`` that a message prints, without those that are to be filled in."""
    found = [mapped or f"step={step}" for mapped, step in _OPTION.findall(message)]
    joined = [each.rstrip(".") for each in found if "KEY" not in each]
    return [*joined, ",".join(joined)] if len(joined) > 1 else joined


def _opened(folder: Path, expected: Mapping[str, Any], mapping: str = "") -> Verdict:
    before = os.environ.pop("RLPANEL_MAP", None)
    try:
        if mapping:
            os.environ["RLPANEL_MAP"] = mapping
        run = open_run(folder, follow=False, jobs=0)
    except RLPanelError as error:
        return Verdict("message", str(error).replace(str(folder), "DIR"))
    except Exception as error:
        return Verdict("crash", f"{type(error).__name__}: {error}")
    finally:
        os.environ.pop("RLPANEL_MAP", None)
        if before is not None:
            os.environ["RLPANEL_MAP"] = before
    try:
        rows = pd.concat([pd.DataFrame(), *(run.split(name).samples(text=True) for name in run.splits)])
    except Exception as error:
        return Verdict("crash", f"{type(error).__name__}: {error}")
    finally:
        run.close()
    wrong = list(_differences(rows, expected))
    return Verdict("wrong", "; ".join(wrong)) if wrong else Verdict("right")


def _differences(rows: pd.DataFrame, expected: Mapping[str, Any]) -> Iterator[str]:
    if len(rows) != expected["rows"]:
        yield f"rows: {len(rows)}, not {expected['rows']}"
        return
    got_steps = sorted({int(step) for step in rows["step"]})
    if got_steps != expected["steps"] and (expected["steps"] or len(got_steps) > 1):
        yield f"steps: {got_steps[:4]}, not {expected['steps'][:4] or 'one'}"
    yield from _reward_differences(rows, expected["reward"])
    if expected["groups"]:
        key = "group" if "group" in rows else "prompt"  # without groups, samples are grouped by prompt
        groups = len(set(zip(rows["step"], rows[key], strict=True))) if key in rows else 0
        if groups != expected["groups"]:
            yield f"groups: {groups}, not {expected['groups']}"
    for key, column in (("turns", "turns"), ("tool_calls", "tool_calls"), ("tokens", "response_tokens")):
        if expected[key]:
            got = rows[column].fillna(0).sum() if column in rows else 0
            if got != expected[key]:
                yield f"{key}: {got:g}, not {expected[key]}"
    yield from _text_differences(rows, expected["texts"])


def _reward_differences(rows: pd.DataFrame, wanted: Mapping[str, float]) -> Iterator[str]:
    """Compare the mean reward of each step; ``*`` is the step of files without one."""
    if wanted and "reward" not in rows:
        yield "reward: none"
        return
    means = defaultdict(list)
    for step, reward in zip(rows["step"], rows.get("reward", ()), strict=False):
        if pd.notna(reward):
            means["*" if "*" in wanted else str(int(step))].append(float(reward))
    for step, mean in wanted.items():
        got = sum(means[step]) / len(means[step]) if means.get(step) else math.nan
        if not math.isclose(got, mean, abs_tol=1e-6):
            yield f"reward: step {step} has mean {got:.4g}, not {mean:.4g}"


def _text_differences(rows: pd.DataFrame, texts: list[list[str]]) -> Iterator[str]:
    """Compare the texts of all rows, in any order."""
    got = [(str(row.get("prompt") or ""), str(row.get("response") or "")) for row in rows.to_dict("records")]
    for prompt, response in texts:
        if not any(_has(given[1], response) for given in got):
            yield f"response: no row has {response!r}; the first has {got[0][1][:40]!r}"
            return
        if len(response) > 15 and not any(
            _has(given[1], response) and not _has(given[0], response) for given in got
        ):
            yield f"prompt: has the response {response!r}"
            return
        if not any(_has(given[0], prompt) and _has(given[1], response) for given in got):
            yield f"prompt: no row has {prompt!r}; the first has {got[0][0][:40]!r}"
            return


def _has(text: str, part: str) -> bool:
    return part in text or part in text.replace('\\"', '"').replace("\\n", "\n")
