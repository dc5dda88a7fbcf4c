"""The commands in docs and deployment files are accepted by the command line."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from docs.generate import FOLDER
from rlpanel import cli, settings

ROOT = FOLDER.parent
TOLD = [ROOT / "README.md", *sorted(FOLDER.glob("*.md")), *sorted((FOLDER / "deploy").iterdir())]
#: Settings that only the command or the training process reads.
ELSEWHERE = {"RLPANEL_ROOT", "RLPANEL_HALT_ON", "RLPANEL_TOKEN", "RLPANEL_MCP_TOKEN"}


@cache
def command_line() -> Any:
    """Return the group of all commands, which takes longer to make than to ask."""
    return typer.main.get_command(cli.app)


def accepts(arguments: list[str]) -> dict[str, Any]:
    """Return the settings of a command line of `rlpanel`; fail if the command would refuse it."""
    group = command_line()
    name, command, rest = group.resolve_command(
        group.make_context("rlpanel", [], resilient_parsing=True), arguments
    )
    return dict(command.make_context(name, rest).params)


def command_lines(path: Path) -> Iterator[list[str]]:
    """Yield each `rlpanel …` command line in code blocks and between backticks."""
    text = path.read_text("utf-8")
    blocks = re.findall(r"^```(?:sh|python)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for line in [*"\n".join(blocks).splitlines(), *re.findall(r"`([^`\n]+)`", text)]:
        found = re.match(r"(?:.*\s)?rlpanel ((?:serve|demo|index|export|convert)\b[^#|;&]*)", line)
        if found and "…" not in found[1]:
            yield shlex.split(re.sub(r"\bN\b", "2", found[1]))  # a number that the reader chooses


LINES = {
    f"{path.name}: {shlex.join(line)}": line
    for path in TOLD
    if path.suffix == ".md"
    for line in command_lines(path)
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_command_of_the_docs_is_one(line: list[str]) -> None:
    accepts(line)


def test_the_docs_tell_of_commands() -> None:
    assert {"README.md", "deploy.md", "alerts.md"} <= {said.partition(":")[0] for said in LINES}


def test_every_variable_that_is_told_of_is_read() -> None:
    read = {
        f"RLPANEL_{name.upper()}"
        for declared in (
            settings.Alerts,
            settings.FindingSettings,
            settings.Reading,
            settings.Training,
            settings.Watching,
        )
        for name in declared.param
    }
    told = {name for path in TOLD for name in re.findall(r"RLPANEL_[A-Z_]*[A-Z]\b", path.read_text("utf-8"))}
    assert {name for name in told if not name.startswith("RLPANEL_RECORD")} <= read | ELSEWHERE


def steps(keyword: str) -> list[str]:
    """Return the arguments of a keyword in the Containerfile."""
    text = (FOLDER / "deploy" / "Containerfile").read_text("utf-8").replace("\\\n", " ")
    return re.findall(rf"^{keyword} +(.+)$", text, re.MULTILINE)


def test_the_image_is_made_of_what_is_there() -> None:
    copied = [part for step in steps("COPY") for part in step.split()[:-1]]
    assert [part for part in copied if not (ROOT / part).exists()] == []
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
    carried = build["targets"]["wheel"]["force-include"]
    needed = {"pyproject.toml", "README.md", "LICENSE", "rlpanel", *carried}  # the files that the build reads
    missing = {name for name in needed if not {name, name.partition("/")[0]} & set(copied)}
    assert missing == set()


def test_the_image_serves_as_the_command_does_and_without_rights() -> None:
    program, *arguments = json.loads(steps("CMD")[-1])
    given = accepts(arguments)
    assert (program, given["host"], str(given["root"])) == ("rlpanel", "0.0.0.0", "/runs")
    assert steps("EXPOSE") == [str(given["port"])]
    assert f":{given['port']}/health" in steps("HEALTHCHECK")[0]
    assert steps("USER") == ["10001"]


def test_the_service_is_started_with_options_that_exist() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(FOLDER / "deploy" / "rlpanel.service", "utf-8")
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert Path(program).name == "rlpanel"
    assert accepts(arguments)["port"] == 5006


@pytest.mark.parametrize("name", ["nginx.conf", "Caddyfile"])
def test_a_proxy_passes_on_to_where_the_board_listens(name: str) -> None:
    given = accepts(["serve"])
    assert f"{given['host']}:{given['port']}" in (FOLDER / "deploy" / name).read_text("utf-8")


def test_every_file_that_a_page_points_to_is_there() -> None:
    pages = [path for path in TOLD if path.suffix == ".md"]
    links = [
        (path, link)
        for path in pages
        for link in re.findall(r"\]\((?!http)([^)#]+)[^)]*\)", path.read_text("utf-8"))
    ]
    assert [f"{path.name}: {link}" for path, link in links if not (path.parent / link).exists()] == []
    assert len(links) > 10


def space(keyword: str) -> list[str]:
    """Return the arguments of a keyword in the Dockerfile of the public demo."""
    text = (ROOT / "deploy" / "space" / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    return re.findall(rf"^{keyword} +(.+)$", text, re.MULTILINE)


def space_command() -> dict[str, Any]:
    """Return the settings that the public demo starts with, outside of a Space."""
    script = (ROOT / "deploy" / "space" / "start.sh").read_text("utf-8").replace("\\\n", " ")
    [line] = re.findall(r"^exec rlpanel (.+)$", script, re.MULTILINE)
    return accepts(shlex.split(re.sub(r"\$\{[A-Z_]+:-([^}]*)}", r"\1", line)))


def test_the_public_demo_is_open_but_read_only() -> None:
    given = space_command()
    assert (given["host"], given["token"], given["show"], given["read_only"]) == ("0.0.0.0", "", False, True)
    assert 0 < given["max_pages"] <= 100
    assert list(given["embed_in"]) == ["https://huggingface.co"]


def test_the_public_demo_listens_where_the_space_looks() -> None:
    port = str(space_command()["port"])
    front = (ROOT / "deploy" / "space" / "README.md").read_text("utf-8").split("---\n")[1]
    settings_of_space = yaml.safe_load(front)
    assert settings_of_space["sdk"] == "docker"
    assert str(settings_of_space["app_port"]) == port
    assert space("EXPOSE") == [port]
    assert list(space_command()["origin"]) == [f"localhost:{port}"]


def test_the_public_demo_is_made_of_what_is_there() -> None:
    folder = ROOT / "deploy" / "space"
    copied = [part for step in space("COPY") for part in step.split()[:-1]]
    assert "*.whl" in copied  # `make dist` builds it
    assert [part for part in copied if part != "*.whl" and not (folder / part).exists()] == []
    assert json.loads(space("CMD")[-1]) == ["sh", "/start.sh"]
    assert "start.sh /start.sh" in space("COPY")
    assert space("USER") == ["1000"]
