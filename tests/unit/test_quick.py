"""The plain rule of `make quick`: which tests belong to a changed path."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.quick import OF_MODULES, OF_PAGES, OF_PROJECT, belonging, left_out

ROOT = Path(__file__).parents[2]
TREE = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "unit").rglob("*")]


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("rlpanel/store/query/filter.py", ["tests/unit/store/query/test_filter.py", *OF_MODULES]),
        ("rlpanel/update/update_report.py", ["tests/unit/update", *OF_MODULES]),
        ("rlpanel/board_url.py", ["tests/unit/test_board_url.py", *OF_MODULES]),
        ("rlpanel/errors.py", ["tests/unit/test_errors.py", *OF_MODULES]),
        ("rlpanel/app/page/views.css", ["tests/unit/app/page"]),
        ("tests/unit/test_quick.py", ["tests/unit/test_quick.py"]),
        ("tests/property/test_search.py", ["tests/property/test_search.py"]),
        ("tests/unit/store/query/conftest.py", ["tests/unit/store/query"]),
        ("tests/ui/test_board.py", []),
        ("docs/alerts.md", [*OF_PAGES]),
        ("README.md", [*OF_PAGES]),
        ("pyproject.toml", [*OF_PROJECT]),
        ("Makefile", [*OF_PROJECT]),
    ],
)
def test_a_path_has_its_tests(path: str, tests: list[str]) -> None:
    assert belonging(path, TREE) == tests


def test_the_named_tests_exist() -> None:
    assert [name for name in (*OF_PAGES, *OF_PROJECT, *OF_MODULES) if not (ROOT / name).is_file()] == []


def test_what_is_not_run_is_said() -> None:
    said = left_out(["tests/ui/test_board.py", "rlpanel/odd/odd.py"], {*OF_MODULES})
    assert [sentence.partition(":")[0] for sentence in said] == [
        "changed tests with servers or browsers",
        "no unit tests belong to rlpanel/odd/odd.py",
        "all other unit tests, tests/integration and tests/ui",
    ]
