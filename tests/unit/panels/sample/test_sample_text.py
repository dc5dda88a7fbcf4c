"""The tabs of a sample."""

from __future__ import annotations

from rlpanel.panels.sample.sample_text import extra_html
from rlpanel.schema import Sample


def test_a_further_key_nested_beyond_what_can_be_written_is_named() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert "<td>deep</td><td>nested too deeply to be shown</td>" in extra_html(
        Sample(uid="a:0", step=1, extra={"deep": deep})
    )
