"""The pages for agents: they are carried, and name the tools and tables that exist."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from rlpanel.api.run import Run
from rlpanel.errors import SettingError
from rlpanel.mcp_server.answer import AnswerLimits
from rlpanel.mcp_server.doc_pages import PAGES, metric_names, metric_text, page_text, read_page
from rlpanel.mcp_server.run_pool import RunPool
from rlpanel.mcp_server.server_setup import PROMPTS, create_server
from rlpanel.mcp_server.tool_server import WRITING
from tests.mcp_tools import READING

ROOT = Path(__file__).parents[3]


def test_the_wheel_carries_the_pages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    carried = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    pages = {source: target for source, target in carried.items() if source.startswith("docs/")}
    assert pages == {f"docs/{file}": f"rlpanel/docs/{file}" for file, _ in PAGES.values()}
    for file, _ in PAGES.values():
        assert read_page(file) == (ROOT / "docs" / file).read_text(encoding="utf-8")


def test_the_page_names_all_tools_and_resources() -> None:
    page = read_page("agents-cli.md")
    section = page[page.index("## As a server") :]
    named = set(re.findall(r"`([a-z_]+)`", section))
    assert {*READING, *WRITING} <= named
    assert all(f"docs://{name}" in section for name in (*PAGES, "metrics/NAME"))
    assert all(f"`{prompt.__name__}`" in section for prompt in PROMPTS)


def test_no_page_exceeds_an_answer_and_each_metric_has_its_own() -> None:
    assert max(len(page_text(name).encode()) for name in PAGES) <= AnswerLimits().bytes
    assert all(f"{name}" in page_text("metrics") for name in metric_names())
    whole = read_page("metrics.md")
    assert len(metric_names()) == len(re.findall(r"^### ", whole, re.MULTILINE))
    assert all(
        metric_text(name).startswith("### ") and metric_text(name).strip() in whole for name in metric_names()
    )


@pytest.mark.parametrize(
    ("name", "metric"),
    [("kl_k3", "kl_k3"), ("kl_k3_mean", "kl_k3"), ("reward_std", "reward"), ("kl_k3_mean_max", "kl_k3")],
)
def test_a_column_leads_to_its_metric(name: str, metric: str) -> None:
    assert f"`{metric}`" in metric_text(name).splitlines()[0]


def test_an_unknown_metric_is_refused_with_similar_ones() -> None:
    with pytest.raises(SettingError, match="'kl_k33'; similar: kl_k3"):
        metric_text("kl_k33")


def test_without_the_package_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    with pytest.raises(SettingError, match=r'pip install "mcp>='):
        create_server(RunPool(tmp_path), AnswerLimits(), board="", notes=False)


@pytest.fixture
def run(grpo_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    import rlpanel

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return rlpanel.open_run(grpo_run, follow=False)


def test_the_queries_of_the_sql_page_run(run: Run) -> None:
    pytest.importorskip("duckdb")
    page = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
    found = re.findall(r'\.sql\(\s*"(.*?)"', page)
    found += re.findall(r'rlpanel sql runs/exp1 "([^"]*)"$', page, re.MULTILINE)
    assert len(found) >= 5
    for query in found:
        run.sql(query)
    columns = set(run.sql("from groups")) | set(run.sql("from findings")) | set(run.sql("from tokens(1)"))
    assert {"signal", "rule", "position"} <= columns
