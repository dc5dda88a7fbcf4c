"""Moves the fragments of ``docs/changes`` into the changelog: ``python -m docs.changelog``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Kind of a fragment, the first word of its name, to the heading in the changelog.
KINDS = {"added": "Added", "changed": "Changed", "fixed": "Fixed", "removed": "Removed"}


def fragments(folder: Path) -> dict[Path, str]:
    """Return the text of each fragment on one line, in the order of their names.

    Raises
    ------
    ValueError
        If a file is not named after a kind, is empty, or holds a list or a heading.
    """
    found = {}
    for path in sorted(folder.glob("*.md")):
        if path.stem == "about":
            continue
        text = " ".join(path.read_text("utf-8").split())
        if path.stem.partition("-")[0] not in KINDS or "-" not in path.stem:
            raise ValueError(f"{path.name}: name it after one of {', '.join(KINDS)}, such as fixed-zoom.md")
        if not text or text[0] in "-*#":
            raise ValueError(f"{path.name}: write one or two sentences, without a list mark or heading")
        found[path] = text
    return found


def with_fragments(changelog: str, texts: dict[Path, str]) -> str:
    """Return the changelog with the texts under *Unreleased*, each under the heading of its kind.

    Raises
    ------
    ValueError
        If the changelog has no section *Unreleased*.
    """
    head, title, rest = changelog.partition("## Unreleased\n")
    if not title:
        raise ValueError("CHANGELOG.md has no section Unreleased")
    section, mark, older = re.match(r"(.*?)(^## |\Z)(.*)", rest, re.DOTALL | re.MULTILINE).groups()  # type: ignore[union-attr]
    for kind, heading in KINDS.items():
        lines = "".join(f"- {text}\n" for path, text in texts.items() if path.stem.partition("-")[0] == kind)
        if not lines:
            continue
        if f"### {heading}\n" not in section:
            section = f"{section.rstrip()}\n\n### {heading}\n\n"
        before, mine, after = section.partition(f"### {heading}\n")
        entries, next_heading, others = after.partition("\n### ")
        entries = f"{entries.rstrip()}\n" if entries.strip() else "\n"
        section = f"{before}{mine}{entries}{lines}{next_heading}{others}"
    return f"{head}{title}{section.rstrip()}\n{chr(10) if mark else ''}{mark}{older}"


def main(arguments: list[str]) -> None:
    """Move the fragments, or only check them with ``--check``."""
    try:
        texts = fragments(ROOT / "docs" / "changes")
        changelog = with_fragments((ROOT / "CHANGELOG.md").read_text("utf-8"), texts)
    except ValueError as error:
        sys.exit(str(error))
    if arguments != ["--check"]:
        (ROOT / "CHANGELOG.md").write_text(changelog, "utf-8")
        for path in texts:
            path.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
