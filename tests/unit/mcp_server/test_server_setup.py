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
from rlpanel.mcp_server.run_pool import RunPool
from rlpanel.mcp_server.server_setup import PAGES, create_server, read_page
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
    assert all(f"docs://{name}" in section for name in PAGES)


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
    found += re.findall(r'rlpanel sql runs/exp1 "(.*?)"', page)
    assert len(found) >= 5
    for query in found:
        run.sql(query)
    columns = set(run.sql("from groups")) | set(run.sql("from findings")) | set(run.sql("from tokens(1)"))
    assert {"signal", "rule", "position"} <= columns
