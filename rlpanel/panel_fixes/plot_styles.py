"""Plots that take their colours and widths from the model alone, and not from style sheets as well.

Upstream: docs/upstream/bokeh-visual-styles.md
Needed by: Bokeh 3.9
Delete when: Bokeh 3.10 is the oldest that is supported: it asks once for each paint.
"""

from __future__ import annotations

#: Script that runs after Bokeh's own. Another version may name the method otherwise: then nothing changes.
PLAIN_STYLES = """
{
  try {
    const visuals = Bokeh.require("core/visuals/visual").VisualProperties.prototype
    if (visuals._get_css_value) visuals._get_css_value = () => ""
  } catch {}
}
"""
