from __future__ import annotations

from pathlib import Path

import pytest

import rlpanel
from tests.factories import write_run


@pytest.mark.parametrize(("options", "height"), [({}, 720), ({"height": 500}, 500)])
def test_the_board_has_a_height_of_its_own_that_panel_does_not_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: dict[str, int], height: int
) -> None:
    write_run(tmp_path / "a")
    model = rlpanel.board(tmp_path, **options).get_root()
    assert (model.sizing_mode, model.height) == ("stretch_width", height)
    assert caplog.messages == []
