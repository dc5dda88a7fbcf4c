"""Ticks of a printf format with the minus that Bokeh's other formats have.

Upstream: docs/upstream/bokeh-printf-minus.md
Needed by: Bokeh 3.9 to 3.10
Delete when: the formatter replaces the hyphen, as ``BasicTickFormatter`` does.
"""

from __future__ import annotations

#: Script that runs after Bokeh's own.
PRINTF_MINUS = """
{
  try {
    const formatter = Bokeh.require("models/formatters/printf_tick_formatter").PrintfTickFormatter.prototype
    const format = formatter.doFormat
    formatter.doFormat = function (...args) {
      return format.apply(this, args).map((text) => text.replaceAll("-", "\\u2212"))
    }
  } catch {}
}
"""
