"""Settings that environment variables give."""

from __future__ import annotations

import pytest

from rlpanel.errors import SettingError
from rlpanel.settings import Reading


@pytest.mark.parametrize(
    ("text", "is_on"),
    [
        *((text, True) for text in ("1", " On ", "true", "yes")),
        *((text, False) for text in ("0", "off", "False", "no", "")),
    ],
)
def test_a_switch_has_four_words_for_on_and_for_off(
    text: str, is_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLPANEL_CACHE", text)
    assert Reading.from_environment().cache is is_on


@pytest.mark.parametrize("text", ["/scratch/cache", "2", "enabled"])
def test_another_text_never_turns_a_switch_off_in_silence(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLPANEL_CACHE", text)
    with pytest.raises(SettingError, match=f"^RLPANEL_CACHE='{text}' is neither on nor off: give 1 or 0$"):
        Reading.from_environment()
