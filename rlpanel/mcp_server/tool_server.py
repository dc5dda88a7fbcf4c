"""A server whose errors keep texts of the log apart, and which refuses arguments that no tool has."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.types import ToolAnnotations

from rlpanel.errors import (
    FilterError,
    QueryError,
    RLPanelError,
    RunNotFound,
    SampleNotFound,
    SettingError,
)
from rlpanel.mcp_server.answer import refusal

#: What an agent is told of an error, in words of rlpanel only.
_SENTENCES: dict[type[RLPanelError], str] = {
    RunNotFound: "there is no such run; the tool runs lists all",
    SampleNotFound: "the run has no such sample; the tool samples lists uids",
    FilterError: "the filter or the search is not valid",
    QueryError: "the query is not valid, not allowed, or exceeds a limit; docs://sql has the tables",
    SettingError: "an argument has a value that cannot be used",
}


class ToolServer(MCPServer):
    """MCP server for tools that raise rlpanel's errors.

    A message of rlpanel may name runs, columns and values of the log. It stands under ``untrusted``, as the
    rows of an answer do.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._arguments: dict[str, tuple[str, ...]] = {}

    def add(self, tool: Callable[..., str], *, reads: bool) -> None:
        """Add a tool under the name of its function.

        Parameters
        ----------
        tool : callable
        reads : bool
            Whether it only reads.
        """
        hints = ToolAnnotations(read_only_hint=reads, destructive_hint=not reads, open_world_hint=False)
        self.add_tool(tool, annotations=hints, structured_output=False)
        self._arguments[tool.__name__] = tuple(inspect.signature(tool).parameters)

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool.

        Raises
        ------
        ToolError
            If it fails; the message is JSON.
        """
        known = self._arguments.get(name, tuple(arguments))
        if unknown := [argument for argument in arguments if argument not in known]:
            raise ToolError(_unknown_argument(name, known, unknown))
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, RLPanelError):
                kinds = (_SENTENCES[kind] for kind in _SENTENCES if isinstance(cause, kind))
                sentence = next(kinds, "the run, or a part of it, cannot be read now")
                raise ToolError(refusal(sentence, str(cause))) from error
            if isinstance(error, UnexpectedToolError):  # its message is without the text of its cause
                raise
            sentence = "there is no such tool, or an argument has no valid value"
            raise ToolError(refusal(sentence, str(error))) from error


def _unknown_argument(tool: str, known: tuple[str, ...], unknown: list[str]) -> str:
    nearest = difflib.get_close_matches(unknown[0], known, n=1, cutoff=0.5)
    hint = f"; the nearest is {nearest[0]}" if nearest else ""
    sentence = f"the tool {tool} has no such argument{hint}; it has {', '.join(known) or 'none'}"
    return refusal(sentence, f"unknown: {', '.join(map(repr, unknown))}")
