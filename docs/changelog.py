"""Moves the fragments of ``docs/changes`` into the changelog: ``python -m docs.changelog``.

With a version, ``python -m docs.changelog 0.2.0``, all that is unreleased becomes the section of it.
"""

from __future__ import annotations

import argparse
import posixpath
import re
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Kind of a fragment, the first word of its name, to the heading in the changelog.
KINDS = {"added": "Added", "changed": "Changed", "fixed": "Fixed", "removed": "Removed"}

#: Characters of a line of the changelog.
WIDTH = 126
#: Folder of the fragments, as the changelog sees it.
FRAGMENTS = "docs/changes"


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
        found[path] = re.sub(r"\]\((?=\.)([^)]*)\)", _link_from_root, text)
    return found


def _link_from_root(link: re.Match[str]) -> str:
    """Return a link relative to the fragment as one relative to the changelog."""
    return f"]({posixpath.normpath(posixpath.join(FRAGMENTS, link[1]))})"


def _entry(text: str) -> str:
    """Return a text as an item of a list, in lines of the same width as the others."""
    return textwrap.fill(
        f"- {text}", WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


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
        mine = [text for path, text in texts.items() if path.stem.partition("-")[0] == kind]
        lines = "".join(f"{_entry(text)}\n" for text in mine)
        if not lines:
            continue
        if f"### {heading}\n" not in section:
            section = "\n".join([*filter(None, [section.rstrip()]), "", f"### {heading}", "", ""])
        before, title_of_kind, after = section.partition(f"### {heading}\n")
        entries, next_heading, others = after.partition("\n### ")
        entries = f"{entries.rstrip()}\n" if entries.strip() else "\n"
        section = f"{before}{title_of_kind}{entries}{lines}{next_heading}{others}"
    section = f"{section.rstrip()}\n" if section.strip() else ""
    return f"{head}{title}{section}{chr(10) if mark else ''}{mark}{older}"


def released(changelog: str, version: str, day: str) -> str:
    """Return the changelog with what is under *Unreleased* as the section of a version.

    Parameters
    ----------
    changelog : str
    version : str
        Such as ``0.2.0``.
    day : str
        Day of the release, ``YYYY-MM-DD``.

    Raises
    ------
    ValueError
        If the version is not three numbers or has a section already, or nothing is unreleased.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ValueError(f"{version}: a version is three numbers, such as 0.2.0")
    if re.search(rf"^## {re.escape(version)}\b", changelog, re.MULTILINE):
        raise ValueError(f"CHANGELOG.md has a section {version} already")
    head, title, rest = changelog.partition("## Unreleased\n")
    if not re.match(r"\s*### ", rest):
        raise ValueError("CHANGELOG.md has nothing under Unreleased")
    return f"{head}{title}\n## {version} ({day})\n{rest}"


def main(arguments: list[str]) -> None:
    """Move the fragments, or only check them with ``--check``; a version ends what is unreleased."""
    parser = argparse.ArgumentParser(prog="python -m docs.changelog", description=main.__doc__)
    parser.add_argument("version", nargs="?", help="such as 0.2.0: what is unreleased becomes its section")
    parser.add_argument("--check", action="store_true", help="write nothing")
    given = parser.parse_args(arguments)
    try:
        texts = fragments(ROOT / FRAGMENTS)
        changelog = with_fragments((ROOT / "CHANGELOG.md").read_text("utf-8"), texts)
        if given.version:
            changelog = released(changelog, given.version, f"{datetime.now(UTC):%Y-%m-%d}")
    except ValueError as error:
        sys.exit(str(error))
    if not given.check:
        (ROOT / "CHANGELOG.md").write_text(changelog, "utf-8")
        for path in texts:
            path.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
