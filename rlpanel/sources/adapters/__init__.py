"""One trainer dialect a file; the first that accepts a file reads it.

To add one: write a module with a class that follows `rlpanel.sources.base.Adapter` and name it here.
"""

from __future__ import annotations

from rlpanel.sources.adapters.native import Native
from rlpanel.sources.base import Adapter

ADAPTERS: tuple[Adapter, ...] = (Native(),)
