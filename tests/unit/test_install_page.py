"""docs/install.md names the extras and the versions of Python that there are."""

from __future__ import annotations

import re
import tomllib

from docs.generate import FOLDER

PROJECT = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text("utf-8"))["project"]
PAGE = (FOLDER / "install.md").read_text("utf-8")


def section(title: str) -> str:
    """Return the text below a heading."""
    return PAGE.split(f"\n## {title}\n")[1].partition("\n## ")[0]


def test_the_page_names_each_extra() -> None:
    named = re.findall(r"^\| `([a-z]+)` \|", section("Extras"), re.MULTILINE)
    assert set(named) == PROJECT["optional-dependencies"].keys()
    used = {name for group in re.findall(r"rlpanel\[([a-z,]+)]", PAGE) for name in group.split(",")}
    assert used
    assert used <= set(named)


def test_the_page_names_the_supported_pythons() -> None:
    supported = [line.split(" :: ")[-1] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert f"needs Python {', '.join(supported[:-1])} or {supported[-1]}," in PAGE


def test_the_table_lists_the_largest_packages_first() -> None:
    sizes = [
        int(size)
        for size in re.findall(r"^\| [\w-]+ \| (\d+) \|", section("What is installed"), re.MULTILINE)
    ]
    assert len(sizes) == 10
    assert sizes == sorted(sizes, reverse=True)
