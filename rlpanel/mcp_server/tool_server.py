"""The tools of the server with their schemas: questions to a run, links, and tags and notes."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Annotated, Any, Literal, get_args

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from mcp.types import Tool as MCPTool
from pydantic import Field, ValidationError

from rlpanel.board_url import board_link
from rlpanel.errors import (
    FilterError,
    QueryError,
    RLPanelError,
    RunNotFound,
    SampleNotFound,
    SettingError,
)
from rlpanel.mcp_server.answer import (
    MAX_CHARS,
    AnswerLimits,
    AnswerPage,
    answer,
    question_digest,
    read,
    refusal,
    safe_json,
    written,
)
from rlpanel.mcp_server.run_pool import RunPool
from rlpanel.queries import question_options
from rlpanel.queries.question import Parameter, Question
from rlpanel.queries.question_options import Option, option_of
from rlpanel.queries.reports.claim_report import annotate
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import Table

# -- answer schema -------------------------------------------------------------------------------------
# The JSON schemas that a client reads of each tool: of its answers, and of its arguments without ballast.
#
# They are short, since a client reads them for each tool: ``schema://TABLE`` describes the columns of a
# table.


#: What every answer of a question has; a row has as many values as there are columns.
ANSWER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "table": {"type": "string"},
        "total": {"type": "integer"},
        "next": {"type": "string"},
        "untrusted": {
            "type": "object",
            "properties": {"columns": {"type": "array"}, "rows": {"type": "array"}},
            "required": ["columns", "rows"],
        },
    },
    "required": ["untrusted"],
}
#: The answers of the tools that give one text.
OWN_SCHEMAS: dict[str, dict[str, Any]] = {
    tool: {"type": "object", "properties": {key: {"type": "string"}}, "required": [key]}
    for tool, key in (("link", "link"), ("show", "shown"))
}
#: Keywords that only the server's own check needs; a value beyond them is refused with a sentence.
_OWN = ("title", "maxLength", "maxItems")
_NULL = {"type": "null"}


def brief_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool's arguments without titles, bounds of lengths, and empty defaults.

    An argument that may be null is one that may be left out, which the schema says by ``required``.

    Parameters
    ----------
    schema : dict
        As pydantic makes it.
    """
    properties = {name: _property(value) for name, value in schema.get("properties", {}).items()}
    rest = {key: value for key, value in schema.items() if key not in (*_OWN, "properties")}
    return {**rest, "properties": properties}


def _property(schema: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in schema.items() if key not in _OWN}
    if not kept.get("default", True):
        del kept["default"]
    if "anyOf" in kept:
        kinds = [_property(kind) for kind in kept.pop("anyOf") if kind != _NULL]
        kept |= kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    return kept


# -- tool server ---------------------------------------------------------------------------------------
# The tools of the server: questions to a run, links to the board, and the writing of tags and notes.
#
# Errors keep texts of the log apart, and arguments that no tool has are refused.


def _field(option: Option, **bounds: Any) -> Any:
    """Return what pydantic checks and an agent reads for an option."""
    given = {"ge": option.min, "le": option.max, "max_length": option.chars} | bounds
    description = (option.agents or option.help_text).strip() or None
    return Field(description=description, **{name: it for name, it in given.items() if it is not None})


Name = Annotated[str, Field(max_length=1000, description="Name, as runs lists it.")]
Split = Annotated[str, Field(max_length=200, description="By default training.")]
Step = Annotated[int | None, _field(option_of(question_options.Step))]
Filter = Annotated[str, _field(option_of(question_options.FilterBy))]
Sort = Annotated[str, _field(option_of(question_options.Sort))]
Uid = Annotated[str, _field(option_of(question_options.Uid))]
#: How much an answer has, see the server's instructions.
SHORT = "short"
Detail = Literal["short", "full"]
Cursor = Annotated[str, Field(max_length=MAX_CHARS)]

#: Names of the tools that write.
WRITING = ("tag", "note", "claim")


def tool_of(question: Question[...], pool: RunPool, limits: AnswerLimits) -> Callable[..., str]:
    """Return the tool that asks a question; its arguments and its description are those of the function.

    Parameters
    ----------
    question : Question
    pool : RunPool
        Opens the runs by their names.
    limits : AnswerLimits
    """

    def tool(**arguments: Any) -> str:
        with pool.answering():
            return asked(arguments)

    def asked(arguments: dict[str, Any]) -> str:
        digest = question_digest(question.name, arguments)
        at = read(arguments.pop("cursor", ""), digest)
        full = arguments.pop("detail", SHORT) != SHORT
        about: Any = pool.root
        if not question.of_root:
            about = pool.run(arguments.pop("run"), arguments.pop("split", "")).data
        given = question.arguments(arguments, attrgetter("tool_default"), value)
        if question.of_root:
            given["summaries"] = pool.runtime.summaries  # those of the runs that `pool` opened, too
        table = _page(question, about, given, at.skip)
        page = AnswerPage(at, lambda cursor: written(cursor, digest), question.newest_last, full)
        return answer(table, limits, page)

    def value(parameter: Parameter, given: Any) -> Any:
        if parameter.type is RunData:
            return pool.run(given).data
        if parameter.is_runs:
            return [pool.run(name).data for name in given or ()]
        if parameter.option.read is not None:
            return parameter.option.read(str(given)) if given not in ("", None) else None
        return given

    parameters = [] if question.of_root else [_parameter("run", Name)]
    parameters += [
        _tool_parameter(parameter)
        for parameter in question.parameters
        if parameter.option.tool and parameter.name != "offset"
    ]
    if question.has_split and not question.of_root:
        parameters.append(_parameter("split", Split, ""))
    parameters += [_parameter("detail", Detail, SHORT), _parameter("cursor", Cursor, "")]
    tool.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    tool.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {
        "return": str
    }
    tool.__name__ = question.name
    tool.__doc__ = question.agents_text
    return tool


def _tool_parameter(parameter: Parameter) -> inspect.Parameter:
    """Return the parameter of a tool, annotated for pydantic."""
    option, kind, default = parameter.option, parameter.type, parameter.tool_default
    if parameter.type is RunData:
        return _parameter(parameter.name, Name)
    if kind is Any:
        kind = str
    elif parameter.is_list:
        kind = list[str] | None
    elif option.none == 0:
        kind = int
    elif tuple[int, int] in get_args(kind):
        # A limit of characters applies to a text alone: pydantic cannot apply it to a number.
        text = Annotated[str, Field(max_length=option.chars)]
        kind = int | text | None if option.read is not None else int | None
        option = replace(option, chars=None)
    bounds = {} if option.most_rows is None else {"ge": 1, "le": option.most_rows}
    if parameter.default is inspect.Parameter.empty and kind is str and option.metavar == "TEXT":
        bounds["min_length"] = 1
    return _parameter(parameter.name, Annotated[kind, _field(option, **bounds)], default)


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _page(question: Question[...], about: Any, given: dict[str, Any], skip: int) -> Table:
    """Ask a question, and return the rows after the first ``skip``; of steps, those before the last ones."""
    names = {parameter.name for parameter in question.parameters}
    if "offset" in names:
        return question(about, **given | {"offset": skip})
    most = "last" if question.newest_last else "limit"
    if given.get(most) is not None:
        given[most] += skip
    table = question(about, **given)
    if not skip:
        return table
    kept = slice(0, max(0, table.size - skip)) if question.newest_last else slice(skip, None)
    rows = table.rows[kept]
    values = {column.name: [row[column.name] for row in rows] for column in table.columns}
    return replace(table, values=values, size=len(rows))


class LinkTool:
    """The tool that returns addresses of the board.

    Parameters
    ----------
    pool : RunPool
    board : str
        Address of the board.
    """

    def __init__(self, pool: RunPool, board: str) -> None:
        self._pool, self._board = pool, board

    def link(
        self,
        run: Name,
        step: Step = None,
        sample: Annotated[str, Field(max_length=2000, description="Uid of a sample.")] = "",
        token: Annotated[int, Field(ge=-1, description="Position of a token; -1 for none.")] = -1,
        filter: Filter = "",
        sort: Sort = "",
        split: Split = "",
    ) -> str:
        """Return the board's address of a run, step, sample or filter, for a report to a person."""
        name = next((info.name for info in self._pool.infos() if info.name == run), None)
        name = name or self._pool.run(run).name  # raises, with the names that exist
        address = board_link(
            name,
            step=step,
            sample=sample,
            token=token,
            filter=filter,
            sort=sort,
            split=split,
            url=self._board,
        )
        return safe_json({"link": address})


class NoteTools:
    """Tools that write tags and notes; the server has them only if it was started with ``--notes``."""

    def __init__(self, pool: RunPool, limits: AnswerLimits) -> None:
        self._pool, self._limits = pool, limits

    def tag(
        self, run: Name, uid: Uid, tag: Annotated[str, Field(max_length=100, description="Empty removes it.")]
    ) -> str:
        """Set the tag of a sample, which people see on the board."""
        return answer(annotate(self._pool.run(run).data, uid, tag=tag), self._limits)

    def note(
        self,
        run: Name,
        uid: Uid,
        note: Annotated[str, Field(max_length=2000, description="Empty removes it.")],
    ) -> str:
        """Set the note of a sample, which people see on the board."""
        return answer(annotate(self._pool.run(run).data, uid, note=note), self._limits)


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

    async def list_tools(self) -> list[MCPTool]:
        """Return all tools; their schemas are short."""
        return [
            tool.model_copy(
                update={
                    "input_schema": brief_schema(tool.input_schema),
                    "output_schema": OWN_SCHEMAS.get(tool.name, ANSWER_SCHEMA),
                }
            )
            for tool in await super().list_tools()
        ]

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
            result = await super().call_tool(name, arguments, context)
            if isinstance(result, CallToolResult) and isinstance(result.content[0], TextContent):
                document = json.loads(result.content[0].text)
                return result.model_copy(update={"structured_content": document})
            return result
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, RLPanelError):
                kinds = (_SENTENCES[kind] for kind in _SENTENCES if isinstance(cause, kind))
                sentence = next(kinds, "the run, or a part of it, cannot be read now")
                raise ToolError(refusal(sentence, str(cause))) from error
            if isinstance(error, UnexpectedToolError):  # its message is without the text of its cause
                raise
            if isinstance(cause, ValidationError):
                wrong = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in cause.errors()]
                raise ToolError(refusal("an argument has no valid value", "; ".join(wrong))) from error
            raise ToolError(refusal("there is no such tool", str(error))) from error


#: Names of other tools' arguments, which models guess, with ours.
_GUESSED = {
    "where": "filter", "query": "filter", "condition": "filter",
    "order_by": "sort", "orderby": "sort", "sort_by": "sort",
    "top": "limit", "count": "limit", "n": "limit", "max_rows": "limit", "page_size": "limit",
    "fields": "columns", "select": "columns", "id": "uid", "sample_id": "uid", "page": "cursor",
}  # fmt: skip


def _nearest(unknown: str, known: tuple[str, ...]) -> str:
    """Return the argument that is probably meant; empty if none is."""
    if _GUESSED.get(unknown.lower()) in known:
        return _GUESSED[unknown.lower()]
    return next(iter(difflib.get_close_matches(unknown, known, n=1, cutoff=0.5)), "")


def _unknown_argument(tool: str, known: tuple[str, ...], unknown: list[str]) -> str:
    nearest = [name for name in (_nearest(each, known) for each in unknown) if name]
    hint = f"; the nearest is {' and '.join(nearest)}" if nearest else ""
    sentence = f"the tool {tool} has no such argument{hint}; it has {', '.join(known) or 'none'}"
    return refusal(sentence, f"unknown: {', '.join(map(repr, unknown))}")
