"""Creates the server with its tools and resources."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.extra_packages import install_command
from rlpanel.mcp_server.answer import NOTICE, AnswerLimits
from rlpanel.mcp_server.run_pool import RunPool
from rlpanel.queries.catalogue import QUESTIONS, row_schema

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

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


def create_server(pool: RunPool, limits: AnswerLimits, *, board: str, notes: bool) -> MCPServer:
    """Return the server.

    Parameters
    ----------
    pool : RunPool
    limits : AnswerLimits
        Of each answer.
    board : str
        Address of the board, for links.
    notes : bool
        Whether there are tools that write tags and notes.

    Raises
    ------
    SettingError
        If the package mcp is not installed.
    """
    try:
        import mcp.server.mcpserver  # noqa: F401
    except ImportError as error:
        raise SettingError(f"the server needs the package mcp: {install_command('mcp')}") from error
    from rlpanel.mcp_server.tool_server import WRITING, LinkTool, NoteTools, ToolServer, tool_of

    server = ToolServer(
        "rlpanel", version=rlpanel.__version__, instructions=INSTRUCTIONS, log_level="WARNING"
    )
    for question in QUESTIONS.values():
        if question.has_tool:
            server.add(tool_of(question, pool, limits), reads=True)
    server.add(LinkTool(pool, board).link, reads=True)
    writing = NoteTools(pool, limits)
    for name in WRITING if notes else ():
        server.add(getattr(writing, name), reads=False)
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
