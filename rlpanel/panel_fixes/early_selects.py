"""Selects whose options may change while the browser still builds their page.

Upstream: docs/upstream/bokeh-early-options.md
Needed by: Bokeh 3.9 to 3.10
Delete when: the view of a select ignores new options until it is rendered.
"""

from __future__ import annotations

#: Script that runs after Bokeh's own: until a view is rendered, it fills a select that nobody sees.
EARLY_SELECTS = """
{
  try {
    const view = Bokeh.require("models/widgets/select").SelectView.prototype
    const initialize = view.initialize
    view.initialize = function () {
      initialize.call(this)
      this.input_el ??= document.createElement("select")
    }
  } catch {}
}
"""
