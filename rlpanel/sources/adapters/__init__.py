"""Adapters: one file format each, of trainers, environments and evaluations; the first that fits reads it.

Samples of environments and evaluations, which know no training step, have step 0.

To add one, write a module with a class that follows `record_types.Adapter`, and add it to `ADAPTERS`.
"""

from __future__ import annotations

from rlpanel.sources.adapters.areal import Areal
from rlpanel.sources.adapters.atif import Atif
from rlpanel.sources.adapters.atropos import Atropos
from rlpanel.sources.adapters.columnar import Columnar, Groups
from rlpanel.sources.adapters.harbor import HarborResults
from rlpanel.sources.adapters.inspect_log import InspectLog
from rlpanel.sources.adapters.miles import MilesColumns, MilesTrajectories
from rlpanel.sources.adapters.ms_swift import SwiftRay, SwiftTables
from rlpanel.sources.adapters.native import Native
from rlpanel.sources.adapters.nemo_gym import NemoGym
from rlpanel.sources.adapters.nemo_rl import NemoRL
from rlpanel.sources.adapters.open_instruct import OpenInstruct
from rlpanel.sources.adapters.openpipe_art import OpenPipeArt
from rlpanel.sources.adapters.ragen import Ragen
from rlpanel.sources.adapters.rllm import RLLM
from rlpanel.sources.adapters.roll_agentic import RollAgentic
from rlpanel.sources.adapters.skyrl import SkyRL
from rlpanel.sources.adapters.tinker_cookbook import TinkerCookbook
from rlpanel.sources.adapters.trl import Trl
from rlpanel.sources.adapters.verl import Verl
from rlpanel.sources.prime.prime_rl import PrimeRL
from rlpanel.sources.prime.prime_rl_tokens import PrimeTokens
from rlpanel.sources.records.record_types import Adapter
from rlpanel.sources.spans.langsmith import Langfuse, LangSmith
from rlpanel.sources.spans.mlflow import MLflow
from rlpanel.sources.spans.opentelemetry import OpenTelemetry
from rlpanel.sources.spans.trackio import Trackio
from rlpanel.sources.trajectories.agent_sessions import SESSIONS
from rlpanel.sources.trajectories.coding_agents import MiniSweAgent, MiniSweMessages, SweAgent
from rlpanel.sources.trajectories.tool_benchmarks import Bfcl, Tau2Bench, TauBench
from rlpanel.sources.trajectories.verifiers_results import VerifiersResults

#: Reads a file that is named after a rank while none of its lines can be read.
NATIVE: Adapter = Native()
#: Reads a file with TRL's name while it cannot be opened.
TRL: Adapter = Trl()
#: Reads a file with the suffix of Inspect's logs while it cannot be opened.
INSPECT: Adapter = InspectLog()

#: Asked in this order. The first four come before `NATIVE`: their rows hold native keys, too.
ADAPTERS: tuple[Adapter, ...] = (
    SwiftTables(),
    Columnar(),
    Trackio(),
    Groups(),
    TRL,
    NATIVE,
    Verl(),
    NemoRL(),
    OpenInstruct(),
    Areal(),
    PrimeRL(),
    PrimeTokens(),
    RollAgentic(),
    SwiftRay(),
    RLLM(),
    SkyRL(),
    TinkerCookbook(),
    NemoGym(),
    MilesTrajectories(),
    MilesColumns(),
    OpenPipeArt(),
    Ragen(),
    Atropos(),
    Atif(),
    HarborResults(),
    INSPECT,
    OpenTelemetry(),
    MLflow(),
    LangSmith(),
    Langfuse(),
    SweAgent(),
    MiniSweAgent(),
    MiniSweMessages(),
    TauBench(),
    Tau2Bench(),
    Bfcl(),
    VerifiersResults(),
    *SESSIONS,
)


def accepted() -> list[str]:
    """Return a description of every file format that is read."""
    return [adapter.looks for adapter in ADAPTERS]
