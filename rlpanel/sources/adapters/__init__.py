"""One trainer dialect a file; the first that accepts a file reads it.

To add one: write a module with a class that follows `record_types.Adapter` and name it here.
"""

from __future__ import annotations

from rlpanel.sources.adapters.areal import Areal
from rlpanel.sources.adapters.columnar import Columnar
from rlpanel.sources.adapters.native import Native
from rlpanel.sources.adapters.nemo_rl import NemoRL
from rlpanel.sources.adapters.open_instruct import OpenInstruct
from rlpanel.sources.adapters.prime_rl import PrimeRL
from rlpanel.sources.adapters.prime_rl_tokens import PrimeTokens
from rlpanel.sources.adapters.trl import Trl
from rlpanel.sources.adapters.verl import Verl
from rlpanel.sources.records.record_types import Adapter

#: Columnar lines hold native keys too, as lists, and TRL's rows 'step' and 'prompt': they are asked first.
ADAPTERS: tuple[Adapter, ...] = (
    Columnar(),
    Trl(),
    Native(),
    Verl(),
    NemoRL(),
    OpenInstruct(),
    Areal(),
    PrimeRL(),
    PrimeTokens(),
)
#: What is read where a file is named for a rank and no line of it can be.
NATIVE: Adapter = ADAPTERS[2]
#: What is read where a file has TRL's name and cannot be opened yet.
TRL: Adapter = ADAPTERS[1]


def accepted() -> list[str]:
    """What files are read, in words."""
    return [adapter.looks for adapter in ADAPTERS]
