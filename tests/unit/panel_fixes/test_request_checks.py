"""The handlers of Panel's own server."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from panel.io.server import ComponentResourceHandler
from tornado.web import HTTPError


@pytest.mark.upstream_fault
def test_an_address_still_makes_panel_import_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "named_by_an_address.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "named_by_an_address", raising=False)
    own: Any = ComponentResourceHandler.parse_url_path
    handler: Any = SimpleNamespace(_resource_attrs=ComponentResourceHandler._resource_attrs)
    with pytest.raises(HTTPError):
        getattr(own, "__wrapped__", own)(handler, "named_by_an_address/Component/_esm/x.js")
    assert "named_by_an_address" in sys.modules
