"""Writes ``llms.txt``, an overview of the pages for language models, and each page as Markdown.

The format is that of llmstxt.org: a title, a summary, and lists of links with a sentence on each page.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_SUMMARY = (
    "rlpanel shows what a language model does while reinforcement learning trains it: from the curves of a "
    "run down to the tokens of a single sample, in a browser, a terminal, SQL and Python."
)


def first_sentence(text: str) -> str:
    """Return the first sentence of a page's prose, without links."""
    body = re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.DOTALL)
    paragraphs = [" ".join(part.split()) for part in body.split("\n\n")]
    languages = re.compile(r"(English|\[English\])")
    prose = [part for part in paragraphs if part and part[0] not in "#!|-<(" and not languages.match(part)]
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", prose[0]) if prose else ""
    return re.split(r"(?<=[.:。])\s", plain, maxsplit=1)[0]


def write(
    root: Path, out: Path, sections: Mapping[str, Sequence[str]], document: Callable[[str], str]
) -> None:
    """Write ``llms.txt`` and the pages' Markdown.

    Parameters
    ----------
    root : Path
        The repository.
    out : Path
        The site.
    sections : mapping
        Names of pages by section.
    document : callable
        Turns the name of a page into its path below the site, with a slash in front and without a suffix.
    """
    lines = ["# rlpanel", "", f"> {_SUMMARY}"]
    for section, names in sections.items():
        lines += ["", f"## {section}", ""]
        for name in names:
            path = document(name).removeprefix("/") + ".md"
            text = (root / path).read_text("utf-8")
            title = re.search(r"^# (.+)$", text, re.MULTILINE)
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, out / path)
            lines.append(f"- [{title[1] if title else name}]({path}): {first_sentence(text)}")
    (out / "llms.txt").write_text("\n".join([*lines, ""]), "utf-8")
