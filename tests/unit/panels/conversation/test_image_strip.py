"""The row of a sample's images: named, decoded by the server, and with a reason where one is missing."""

from __future__ import annotations

from pathlib import Path

import rlpanel
from rlpanel.panels.conversation.image_strip import ImageStrip, images_of
from rlpanel.panels.session.context import Context
from tests.conversations import gallery_episode, write_agent_run


def test_the_row_names_each_image_and_says_why_one_is_missing(tmp_path: Path) -> None:
    lost = {"images": ["images/chart.png", "images/<b>lost</b>.png"]}
    write_agent_run(tmp_path, gallery_episode(**lost))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        sample = run.sample(run.samples()["uid"].iloc[0])
        assert len(images_of(sample)) == 8
        assert len(images_of(sample, given=True)) == 7
        strip = ImageStrip(Context(index=run.index, view=run.view))
        assert not strip.__panel__().visible
        strip.sample = sample
        html = strip.__panel__().html
    assert strip.__panel__().visible
    assert html.count('src="data:image/') == 7
    assert "image 1 · chart.png" in html
    assert "<b>lost" not in html
