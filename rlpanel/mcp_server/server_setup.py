"""Creates the server with its tools and resources."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.mcp_server.answer import NOTICE, AnswerLimits
from rlpanel.mcp_server.run_pool import RunPool
from rlpanel.queries.catalogue import QUESTIONS, row_schema

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from rlpanel.mcp_server.report_tools import Shower

#: Resource → file below the package and what it is.
PAGES = {
    "agents": ("agents-cli.md", "How to watch a run, what to look at first, and how to report."),
    "sql": ("sql.md", "The tables and columns of the tool sql."),
    "findings": ("findings.md", "The rules behind the findings, with their thresholds."),
    "metrics": ("metrics.md", "Every number: its formula and how to read it."),
}
INSTRUCTIONS = f"""rlpanel reads logs of reinforcement learning of language models, one run per folder.
Call runs first, then findings of a run, then steps. To find the cause, look at samples, sample_tokens, groups
and contrast. docs://agents tells more. {NOTICE} Report to people with the addresses that link returns."""


def create_server(
    pool: RunPool, limits: AnswerLimits, *, board: str, notes: bool, shower: Shower | None = None
) -> MCPServer:
    """Return the server.

    Parameters
    ----------
    pool : RunPool
    limits : AnswerLimits
        Of each answer.
    board : str
        Address of the board, for links.
    notes : bool
        Whether there are tools that write tags, notes and claims.
    shower : Shower, optional
        What moves an open page; by default a client of ``board`` without a token.

    Raises
    ------
    SettingError
        If the package mcp is not installed.
    """
    try:
        import mcp.server.mcpserver  # noqa: F401
    except ImportError as error:
        raise SettingError('the server needs the package mcp: pip install "rlpanel[mcp]"') from error
    from rlpanel.mcp_server.board_client import BoardClient
    from rlpanel.mcp_server.report_tools import ReportTools, ShowTool
    from rlpanel.mcp_server.tool_server import LinkTool, NoteTools, ToolServer, tool_of

    server = ToolServer(
        "rlpanel", version=rlpanel.__version__, instructions=INSTRUCTIONS, log_level="WARNING"
    )
    for question in QUESTIONS.values():
        if question.has_tool:
            server.add(tool_of(question, pool, limits), reads=True)
    server.add(LinkTool(pool, board).link, reads=True)
    server.add(ShowTool(shower or BoardClient(board)).show, reads=True)
    writing, reports = NoteTools(pool, limits), ReportTools(pool, limits)
    for tool in (writing.tag, writing.note, reports.claim) if notes else ():
        server.add(tool, reads=False)
    _add_resources(server)
    return server


def _add_resources(server: MCPServer) -> None:
    """Add the pages of the documentation and the schemas of the tables."""
    from mcp.server.mcpserver.resources import TextResource

    found = [
        TextResource(
            uri=f"docs://{name}",
            name=name,
            description=about,
            mime_type="text/markdown",
            text=read_page(file),
        )
        for name, (file, about) in PAGES.items()
    ]
    found += [
        TextResource(
            uri=f"schema://{name}",
            name=f"schema-{name}",
            description=question.description,
            mime_type="application/json",
            text=json.dumps(row_schema(question.spec)),
        )
        for name, question in QUESTIONS.items()
    ]
    for resource in found:
        server.add_resource(resource)


def read_page(file: str) -> str:
    """Return a page of the documentation, which the wheel carries.

    Parameters
    ----------
    file : str
        Its name below ``docs``.
    """
    carried = resources.files("rlpanel") / "docs" / file
    if carried.is_file():
        return carried.read_text(encoding="utf-8")
    # In a clone the pages lie beside the package.
    return (resources.files("rlpanel") / ".." / "docs" / file).read_text(encoding="utf-8")
