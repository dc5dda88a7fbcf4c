"""Requirements of dependency groups, one on each line: ``python tests/groups.py test docs``.

``pip install --group`` does the same from pip 25.1 on; new environments of Python 3.11 to 3.13 may be older.
The script runs before anything is installed: it needs only the standard library.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
Groups = dict[str, list[str | dict[str, str]]]


def requirements(groups: Groups, name: str) -> list[str]:
    """Return the requirements of a group and of the groups that it includes."""
    found: list[str] = []
    for entry in groups[name]:
        found += [entry] if isinstance(entry, str) else requirements(groups, entry["include-group"])
    return found


def main(names: list[str]) -> None:
    """Print the requirements of the named groups."""
    groups: Groups = tomllib.loads(PYPROJECT.read_text("utf-8"))["dependency-groups"]
    wanted = dict.fromkeys(line for name in names for line in requirements(groups, name))
    sys.stdout.writelines(f"{line}\n" for line in wanted)


if __name__ == "__main__":
    main(sys.argv[1:])
