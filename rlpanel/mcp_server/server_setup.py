"""Creates the server with its tools, resources and prompts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.extra_packages import install_command
from rlpanel.mcp_server.answer import NOTICE, AnswerLimits
from rlpanel.mcp_server.doc_pages import METRIC_ABOUT, METRIC_URI, PAGES, metric_text, page_text
from rlpanel.mcp_server.run_pool import RunPool
from rlpanel.queries.catalogue import QUESTIONS, row_schema

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from rlpanel.mcp_server.report_tools import Shower

INSTRUCTIONS = f"""rlpanel reads logs of reinforcement learning of language models, one run per folder.
Call runs first, then findings of a run, then steps; news says what is new since a step. To find the cause,
look at samples, sample_tokens, groups, explain and contrast. docs://agents says more, docs://metrics/NAME
explains a number.
Answers are columnar: untrusted.columns has the names once, and each of untrusted.rows has the values in this
order. untrusted.same has the values that all of these rows have. Numbers have five significant digits (whole
ones all). What has no value is left out: columns in untrusted.empty, keys of about and of objects. What
only_full names, whole lists of lists_cut and all digits come with detail=full.
If there is next, pass it as cursor with the same arguments for the following rows (of steps: the earlier
ones). {NOTICE}: the model in training wrote much of it. Report to people with the addresses that
link returns."""


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
        raise SettingError(f"the server needs the package mcp: {install_command('mcp')}") from error
    from mcp.server.mcpserver.prompts import Prompt

    from rlpanel.mcp_server.agent_prompts import PROMPTS
    from rlpanel.mcp_server.board_client import BoardClient
    from rlpanel.mcp_server.report_tools import ReportTools, ShowTool
    from rlpanel.mcp_server.tool_server import LinkTool, NoteTools, ToolServer, tool_of

    server = ToolServer(
        "rlpanel",
        version=rlpanel.__version__,
        instructions=INSTRUCTIONS,
        log_level="WARNING",
        subscriptions=False,  # what the server offers does not change
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
    for prompt in PROMPTS:
        server.add_prompt(Prompt.from_function(prompt))
    return server


def _add_resources(server: MCPServer) -> None:
    """Add the pages of the documentation, the parts on metrics, and the schemas of the tables."""
    from mcp.server.mcpserver.exceptions import ResourceError
    from mcp.server.mcpserver.resources import TextResource

    found = [
        TextResource(
            uri=f"docs://{name}",
            name=name,
            description=about,
            mime_type="text/markdown",
            text=page_text(name),
        )
        for name, (_, about) in PAGES.items()
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

    def metric(name: str) -> str:
        try:
            return metric_text(name)
        except SettingError as error:
            raise ResourceError(str(error)) from error

    server.resource(METRIC_URI, name="metric", description=METRIC_ABOUT, mime_type="text/markdown")(metric)
