"""Where a person finds audio and video that the board does not play."""

from __future__ import annotations

import pytest

from rlpanel.panels.conversation.conversation_view import unplayed
from rlpanel.sources.records.embedded_media import Medium


@pytest.mark.parametrize(
    ("medium", "place"),
    [
        ({"kind": "audio", "url": "media/0.wav"}, "The log names the file media/0.wav."),
        ({"kind": "video", "key": "0f"}, "Its bytes are in the sample's line."),
        ({"kind": "video"}, "The log does not contain it."),
    ],
    ids=["file", "embedded", "left out"],
)
def test_a_medium_that_is_not_played_says_what_is_needed_and_where_it_is(medium: Medium, place: str) -> None:
    assert unplayed(medium) == (
        f"The {medium['kind']} is not played here. "
        f"The player needs a board that rlpanel serve has started. {place}"
    )
