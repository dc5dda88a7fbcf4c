"""One trainer dialect a file; the first that accepts a file reads it.

To add one: write a module with a class that follows `rlpanel.sources.base.Adapter` and name it here.
"""

from __future__ import annotations

from rlpanel.sources.adapters.columnar import Columnar
from rlpanel.sources.adapters.native import Native
from rlpanel.sources.adapters.nemo import Nemo
from rlpanel.sources.adapters.open_instruct import OpenInstruct
from rlpanel.sources.adapters.verl import Verl
from rlpanel.sources.base import Adapter

#: Columnar lines hold the native keys too, as lists, so they are asked first.
ADAPTERS: tuple[Adapter, ...] = (Columnar(), Native(), Verl(), Nemo(), OpenInstruct())
#: What is read where a file is named for a rank and no line of it can be.
NATIVE: Adapter = ADAPTERS[1]


def accepted() -> str:
    """What files are read, in words."""
    return "; ".join(adapter.looks for adapter in ADAPTERS)
