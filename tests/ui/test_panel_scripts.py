"""Faults of Panel's own scripts, on a page of Panel's own server that has none of rlpanel's scripts."""

from __future__ import annotations

from collections.abc import Iterator

import panel as pn
import param
import pytest
from panel.custom import JSComponent
from playwright.sync_api import Browser, Page, expect

from tests.ui.board import free_port
from tests.ui.test_early_changes import FIND


class Label(JSComponent):
    """A component without children, whose script imports nothing."""

    text = param.String("a label")

    _esm = """
export function render({ model }) {
  const shown = document.createElement("span")
  shown.textContent = model.text
  return shown
}
"""


def page_of_panel() -> pn.Column:
    """Return a component."""
    return pn.Column(Label(sizing_mode="stretch_width"), sizing_mode="stretch_width")


@pytest.fixture(scope="module")
def shown(browser: Browser) -> Iterator[Page]:
    """The page in a browser, drawn once for all checks."""
    pn.extension()
    port = free_port()
    server = pn.serve(page_of_panel, address="127.0.0.1", port=port, threaded=True, show=False, verbose=False)
    context = browser.new_context()
    page = context.new_page()
    try:
        page.goto(f"http://127.0.0.1:{port}")
        expect(page.get_by_text("a label")).to_be_visible()
        yield page
    finally:
        context.close()
        server.stop()


@pytest.mark.upstream_fault("component_layout")
def test_a_component_without_children_still_lays_out_the_page(shown: Page) -> None:
    layouts = shown.evaluate(f"""() => {{
      {FIND}
      const label = find((view) => view.model.esm !== undefined)
      const [root] = Bokeh.index.roots
      let layouts = 0
      const compute = root.compute_layout
      root.compute_layout = function () {{ layouts += 1; return compute.call(this) }}
      label.el.style.height = "77px"
      label.after_resize()
      delete root.compute_layout
      return layouts
    }}""")
    assert layouts > 0


@pytest.mark.upstream_fault("component")
def test_the_browser_still_returns_whole_models_that_the_server_has_sent(shown: Page) -> None:
    returned = shown.evaluate(f"""() => {{
      {FIND}
      const label = find((view) => view.model.esm !== undefined)
      const made = new label.model.document.constructor()
      const model = {{ type: "object", name: "Title", id: "p1", attributes: {{ text: "x" }} }}
      made.apply_json_patch({{ events: [{{ kind: "RootAdded", model }}] }})
      let sent
      label.model.document.on_change((event) => {{ sent ??= event }})
      label.model_proxy.send_msg("x")
      sent.document = made
      sent.msg_data.origin = made.roots()[0]
      return JSON.stringify(made.create_json_patch([sent]).events)
    }}""")
    assert "attributes" in returned
