"""Layouts whose children change again while the browser still builds the views of the first change.

Upstream: https://github.com/bokeh/bokeh/issues/15358
Needed by: Bokeh 3.9 to 3.10.0
Delete when: Bokeh 3.10.1 is the oldest that is supported: it shares a view that is being built.
"""

from __future__ import annotations

#: Script that runs after Bokeh's own: a layout builds views of its children one change after another.
OVERLAPPING_CHILDREN = """
{
  try {
    const layout = Bokeh.require("models/layouts/layout_dom").LayoutDOMView.prototype
    const build = layout.build_child_views
    const building = new WeakMap()
    layout.build_child_views = function () {
      const built = (building.get(this) ?? Promise.resolve()).then(() => build.call(this))
      building.set(this, built.catch(() => {}))
      return built
    }
  } catch {}
}
"""
