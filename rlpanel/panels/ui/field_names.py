"""Encode column names for the browser, where they become keys of plain objects.

A log may name a number ``constructor`` or ``__proto__``. As a key of a JavaScript object such a name replaces
or hides what every object has, and Bokeh or Tabulator then refuses all rows. A dot makes Tabulator look for
a nested object, and ``index`` is the name that Panel gives to a row's place. So every name gets a prefix,
and all but letters, digits and ``_`` is written as its code point in hexadecimal.

The encoding depends on the name alone, so a column keeps its key while columns come and go. Python code,
links and files use the log's names; `rlpanel.panels.samples.sample_table.SampleTable` encodes and decodes.
"""

from __future__ import annotations

import re

PREFIX = "c_"
_OTHER = re.compile(r"[^A-Za-z0-9_]")
_CODE = re.compile(r"-([0-9a-f]+)-")


def field_of(name: str) -> str:
    """The key of a column in the browser: ``c_reward`` for ``reward``, ``c_a-2e-b`` for ``a.b``."""
    return PREFIX + _OTHER.sub(lambda found: f"-{ord(found[0]):x}-", name)


def name_of(field: str) -> str:
    """The column's name; the inverse of `field_of`."""
    return _CODE.sub(lambda found: chr(int(found[1], 16)), field.removeprefix(PREFIX))
