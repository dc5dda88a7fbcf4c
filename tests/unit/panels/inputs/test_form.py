"""Changes that a browser sends: each is passed on and answered by its number."""

from __future__ import annotations

from typing import Any

import pytest

from rlpanel.panels.inputs.input_fields import Form
from tests.page_parts import send


def test_each_change_is_answered_by_its_number() -> None:
    changes: list[Any] = []
    form = Form(lambda *change: changes.append((*change, form.answered)))
    send(form, ["band", "sem", 1])
    send(form, ["curves", ["reward"], 2])
    assert changes == [("band", "sem", 0), ("curves", ["reward"], 1)]
    assert form.answered == 2


def test_a_change_that_fails_is_answered() -> None:
    def fail(name: str, value: Any) -> None:
        raise OSError(name)

    form = Form(fail)
    with pytest.raises(OSError, match="band"):
        send(form, ["band", "sem", 1])
    assert form.answered == 1


@pytest.mark.parametrize(
    "message",
    [None, "band", ["band"], ["band", 1], [1, 2, 3], ["band", 1, "1"], ["band", 1, True], ["band", 1, -1],
     ["band", 1, 2**31], ["band", 1, 1.5], {"band": 1}],
    ids=str,
)  # fmt: skip
def test_a_message_of_another_shape_is_ignored(message: Any) -> None:
    changes: list[Any] = []
    form = Form(lambda *change: changes.append(change))
    send(form, message)
    assert not changes
    assert form.answered == 0
