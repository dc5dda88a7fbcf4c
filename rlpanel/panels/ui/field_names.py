"""Encodes column names for the browser, where they become keys of plain objects.

A log may name a number ``constructor`` or ``__proto__``. As a key of a JavaScript object such a name replaces
or hides what every object has, and Bokeh or Tabulator then refuses all rows. A dot makes Tabulator look for
a nested object, and ``index`` is the name that Panel gives to a row's position. So every name gets a prefix,
and each character other than ASCII letters, digits and ``_`` is written as its hexadecimal code point.

The encoding depends on the name alone, so a column keeps its key while columns come and go. Python code,
links and files use the log's names; `rlpanel.panels.samples.sample_table.SampleTable` encodes and decodes.
"""

from __future__ import annotations

import re

PREFIX = "c_"
_OTHER = re.compile(r"[^A-Za-z0-9_]")
_CODE = re.compile(r"-([0-9a-f]+)-")


def field_of(name: str) -> str:
    """Return the key of a column in the browser: ``c_reward`` for ``reward``, ``c_a-2e-b`` for ``a.b``."""
    return PREFIX + _OTHER.sub(lambda match: f"-{ord(match[0]):x}-", name)


def name_of(field: str) -> str:
    """Return the column's name; the inverse of `field_of`."""
    return _CODE.sub(lambda match: chr(int(match[1], 16)), field.removeprefix(PREFIX))
