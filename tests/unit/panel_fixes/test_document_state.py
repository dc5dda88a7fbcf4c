"""What Bokeh publishes about a served document."""

from __future__ import annotations

import re

import pytest
from bokeh.server.connection import ServerConnection
from bokeh.server.contexts import BokehSessionContext
from bokeh.server.session import ServerSession

#: A part of each name that a public way to see unsent messages could have.
UNSENT = re.compile("sent|sending|pending|unread|writ|flush|drain|buffer|queue|busy")


@pytest.mark.upstream_fault
def test_bokeh_still_has_no_public_name_for_unsent_messages() -> None:
    owners = (ServerSession, ServerConnection, BokehSessionContext)
    public = [f"{owner.__name__}.{name}" for owner in owners for name in dir(owner) if name[0] != "_"]
    assert public
    assert list(filter(UNSENT.search, public)) == []
