"""The Python code of the page on notebooks runs, from top to bottom, on a recorded run."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import holoviews as hv
import pandas as pd
import pytest

import rlpanel
from docs import generate
from rlpanel.app.demo import write_recording
from rlpanel.runtime import default_runtime

pytestmark = pytest.mark.slow

PAGE = (generate.FOLDER / "notebook.md").read_text("utf-8")
CELLS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Return what the cells define, after all of them ran in a folder with a run."""
    write_recording("grpo_couplets", tmp_path / "runs" / "exp1")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"shown": []}
    for cell in CELLS:
        *lines, last = ast.parse(cell).body
        if not isinstance(last, ast.Expr):
            lines.append(last)
        exec(compile(ast.Module(lines, []), "notebook.md", "exec"), names)
        if isinstance(last, ast.Expr):
            names["shown"].append(eval(compile(ast.Expression(last.value), "notebook.md", "eval"), names))
    yield names
    default_runtime().close()
    names.clear()
    gc.collect()


def test_every_cell_runs_and_shows_what_the_page_says(names: dict[str, Any], tmp_path: Path) -> None:
    kinds = [type(shown) for shown in names["shown"]]
    assert kinds == [
        rlpanel.Run,
        pd.Series,
        pd.Series,
        pd.DataFrame,
        rlpanel.Sample,
        hv.Layout,
        hv.Overlay,
        hv.Layout,
        type(None),
    ]
    assert sorted(path.name for path in tmp_path.glob("*.*")) == ["groups.png", "reward.html", "reward.svg"]
    token = names["shown"][2]
    assert token.kl_k3 == names["ranking"]["max"][0]
    for plot in names["shown"][5:8]:
        assert hv.render(plot) is not None


def test_every_named_column_is_there(names: dict[str, Any]) -> None:
    run, ranking = names["run"], names["ranking"]
    tables = {
        "run.steps": run.steps,
        "run.samples(step)": run.samples(1),
        "run.groups(step)": run.groups(1),
        "run.tokens(uid)": run.tokens(ranking.uid[0]),
        "run.tokens(steps=(1, 9))": ranking,
        "run.findings": run.findings,
        "run.contrast(a, b)": run.contrast((31, 60), (1, 30)),
    }
    rows = re.findall(r"^\| `(run\.[^`]*)` \| [^|]* \| ([^|]*) \|$", PAGE, re.MULTILINE)
    assert {call for call, _ in rows} == {*tables}
    not_logged = {"loss_mask"}
    for call, columns in rows:
        assert {*re.findall(r"`(\w+)`", columns)} - {*tables[call].columns} <= not_logged, call
    assert [*run.groups(1).columns] == re.findall(r"`(\w+)`", dict(rows)["run.groups(step)"])


def test_every_picture_of_the_page_is_carried() -> None:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", PAGE)
    assert [picture for picture in pictures if not (generate.FOLDER / picture).is_file()] == []
