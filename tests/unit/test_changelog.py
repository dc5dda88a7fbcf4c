"""Fragments of ``docs/changes`` reach the section *Unreleased* of the changelog, each under its kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.changelog import ROOT, fragments, with_fragments

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
