"""What the docs say is what the code does."""

from __future__ import annotations

from docs import generate


def test_the_settings_page_tells_what_the_settings_are() -> None:
    page = (generate.FOLDER / "settings.md").read_text(encoding="utf-8")
    assert page == generate.settings_page(), "run `make docs`"
