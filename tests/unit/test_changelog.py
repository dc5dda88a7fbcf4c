"""Fragments of ``docs/changes`` reach the section *Unreleased* of the changelog, each under its kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.changelog import ROOT, fragments, main, released, with_fragments

CHANGELOG = """# Changelog

## Unreleased

### Added

- Old.

### Fixed

- Mended.

## 0.1.0

### Added

- First.
"""


def test_a_fragment_joins_the_entries_of_its_kind(tmp_path: Path) -> None:
    (tmp_path / "added-groups.md").write_text("Groups are\nexported.\n")
    (tmp_path / "removed-gauge.md").write_text("The gauge is gone.")
    (tmp_path / "about.md").write_text("How to write one.")
    assert with_fragments(CHANGELOG, fragments(tmp_path)) == CHANGELOG.replace(
        "- Old.\n", "- Old.\n- Groups are exported.\n"
    ).replace("- Mended.\n", "- Mended.\n\n### Removed\n\n- The gauge is gone.\n")


def test_a_long_fragment_is_broken_between_words() -> None:
    long = "The page shows `a b`. " * 12
    after = with_fragments(CHANGELOG, {Path("added-a.md"): long.strip()})
    lines = after.partition("- Old.\n")[2].partition("\n\n")[0].splitlines()
    assert [line[:2] for line in lines] == ["- ", "  ", "  "]
    assert max(map(len, lines)) <= 126
    assert " ".join(line[2:] for line in lines) == long.strip()


def test_links_of_a_fragment_hold_in_the_changelog(tmp_path: Path) -> None:
    links = "[a](../log.md#steps), [b](../../README.md) and [c](https://example.org/../x)"
    (tmp_path / "added-links.md").write_text(links)
    [text] = fragments(tmp_path).values()
    assert text == "[a](docs/log.md#steps), [b](README.md) and [c](https://example.org/../x)"


def test_an_unknown_option_moves_nothing() -> None:
    waiting = sorted((ROOT / "docs" / "changes").iterdir())
    with pytest.raises(SystemExit):
        main(["--chek"])
    assert sorted((ROOT / "docs" / "changes").iterdir()) == waiting


def test_what_is_unreleased_becomes_a_version() -> None:
    after = released(CHANGELOG, "0.2.0", "2026-11-28")
    assert after == CHANGELOG.replace("## Unreleased\n", "## Unreleased\n\n## 0.2.0 (2026-11-28)\n")
    # The next fragment goes above the version.
    assert with_fragments(after, {Path("fixed-a.md"): "New."}) == after.replace(
        "## Unreleased\n", "## Unreleased\n\n### Fixed\n\n- New.\n"
    )


@pytest.mark.parametrize(
    ("version", "message"), [("0.1.0", "already"), ("v2", "three numbers"), ("0.2", "three numbers")]
)
def test_a_version_that_cannot_be_is_refused(version: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        released(CHANGELOG, version, "2026-11-28")
    with pytest.raises(ValueError, match="nothing"):
        released("## Unreleased\n\n## 0.1.0\n\n### Added\n", "0.2.0", "2026-11-28")


def test_all_that_waits_fits_the_next_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    waiting = fragments(ROOT / "docs" / "changes") or {Path("fixed-a.md"): "New."}
    after = released(with_fragments(text, waiting), "99.0.0", "2026-11-28")
    section = after.partition("## 99.0.0 ")[2].partition("\n## ")[0]
    words = " ".join(section.split())
    assert [path.name for path, line in waiting.items() if f"- {line}" not in words] == []


def test_without_fragments_the_changelog_stays_as_it_is() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert with_fragments(text, {}) == text


@pytest.mark.parametrize(
    ("name", "text"), [("news.md", "Text."), ("fixed-a.md", ""), ("fixed-a.md", "- Text.")]
)
def test_a_fragment_that_would_not_fit_is_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=name):
        fragments(tmp_path)


def test_the_fragments_that_wait_are_in_order() -> None:
    fragments(ROOT / "docs" / "changes")
