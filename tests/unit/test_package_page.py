"""The page of the package on an index: links and pictures of the README, links of the project."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from hatch_build import PackagePage, absolute, links, repository

ROOT = Path(__file__).parents[2]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
ADDRESS = "https://git.example.org/someone/rlpanel"
TARGET = re.compile(r"(!?)\[[^][]*]\(([^)\s]+)\)")


def page(address: str) -> dict[str, object]:
    """Return what the build adds to the metadata for a declared address."""
    metadata: dict[str, object] = {}
    PackagePage(str(ROOT), {"repository": address}).update(metadata)
    return metadata


def text_of(metadata: dict[str, object]) -> str:
    """Return the README of the metadata, without its code blocks."""
    readme = metadata["readme"]
    assert isinstance(readme, dict)
    return re.sub(r"^```.*?^```$", "", readme["text"], flags=re.MULTILINE | re.DOTALL)


def test_every_link_and_picture_leads_into_the_repository_at_the_version() -> None:
    found = TARGET.findall(text_of(page(ADDRESS)))
    readme = (ROOT / "README.md").read_text("utf-8")
    relative = [target for _, target in TARGET.findall(readme) if not re.match(r"[a-z]+:", target)]
    assert len(found) >= len(relative) > 20
    from rlpanel import __version__

    for mark, target in found:
        kind = "raw" if mark else "blob"
        start = f"{ADDRESS}/{kind}/v{__version__}/"
        assert target.startswith(start), target
        assert (ROOT / target.removeprefix(start).partition("#")[0]).exists(), target


def test_without_an_address_no_link_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    metadata = page("")
    assert [target for _, target in TARGET.findall(text_of(metadata)) if "://" not in target] == []
    assert metadata["urls"] == {}
    assert "starts with" not in text_of(metadata)
    assert "docs/metrics.md: every number" in text_of(metadata)


def test_a_workflow_knows_its_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    monkeypatch.setenv("GITHUB_REPOSITORY", "someone/rlpanel")
    assert repository("") == "https://github.com/someone/rlpanel"
    assert repository(ADDRESS + "/") == ADDRESS


def test_the_links_have_names_that_an_index_knows() -> None:
    assert links(ADDRESS)["Source"] == ADDRESS
    # https://packaging.python.org/en/latest/specifications/well-known-project-urls/
    known = {"source", "documentation", "changelog", "issues"}
    assert {name.lower() for name in links(ADDRESS)} == known


@pytest.mark.parametrize(
    ("text", "there", "nowhere"),
    [
        ("[a](docs/a.md#b)", f"[a]({ADDRESS}/blob/v1/docs/a.md#b)", "a"),
        ("![a](docs/a.png)", f"![a]({ADDRESS}/raw/v1/docs/a.png)", ""),
        ("[![a](b.png)](c.md)", f"[![a]({ADDRESS}/raw/v1/b.png)]({ADDRESS}/blob/v1/c.md)", ""),
        ("[a](https://x.org)", "[a](https://x.org)", "[a](https://x.org)"),
        ("[a](#b)", "[a](#b)", "[a](#b)"),
        ("```\n[a](b)\n```", "```\n[a](b)\n```", "```\n[a](b)\n```"),
    ],
)
def test_a_link_with_and_without_an_address(text: str, there: str, nowhere: str) -> None:
    assert absolute(text, ADDRESS, "v1") == there
    assert absolute(text, "", "v1") == nowhere


def test_one_place_names_the_repository() -> None:
    assert CONFIG["tool"]["hatch"]["metadata"]["hooks"]["custom"].keys() == {"repository"}
    named = [
        path.relative_to(ROOT).as_posix()
        for folder in ("docs", "rlpanel", ".github", "deploy", "examples")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".md", ".py", ".yml", ".yaml", ".toml")
        and "_site" not in path.parts
        and re.search(r"github\.com/[\w-]+/rlpanel\b", path.read_text("utf-8"))
    ]
    assert named == []


def test_the_authors_are_those_of_the_citation() -> None:
    (author,) = CONFIG["project"]["authors"]
    assert f"name: {author['name']}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
