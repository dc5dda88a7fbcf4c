"""The tools of the server: questions to a run, links to the board, and the writing of tags and notes.

Errors keep texts of the log apart, and arguments that no tool has are refused.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Annotated, Any, get_args

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from rlpanel.board_url import board_link
from rlpanel.errors import (
    FilterError,
    QueryError,
    RLPanelError,
    RunNotFound,
    SampleNotFound,
    SettingError,
)
from rlpanel.mcp_server.answer import AnswerLimits, answer, refusal, safe_json
from rlpanel.mcp_server.run_pool import RunPool
from rlpanel.queries import question_options
from rlpanel.queries.notes import annotate
from rlpanel.queries.question import Parameter, Question
from rlpanel.queries.question_options import Option, option_of
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import Table
from rlpanel.runtime import default_runtime


def _field(option: Option, **bounds: Any) -> Any:
    """Return what pydantic checks and an agent reads for an option."""
    given = {"ge": option.min, "le": option.max, "max_length": option.chars} | bounds
    description = (option.agents or option.help_text).strip() or None
    return Field(description=description, **{name: it for name, it in given.items() if it is not None})


Name = Annotated[str, Field(max_length=1000, description="Name of the run, as the tool runs lists it.")]
Split = Annotated[str, Field(max_length=200, description="Split; by default training.")]
Step = Annotated[int | None, _field(option_of(question_options.Step))]
Filter = Annotated[str, _field(option_of(question_options.FilterBy))]
Sort = Annotated[str, _field(option_of(question_options.Sort))]
Uid = Annotated[str, _field(option_of(question_options.Uid))]

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
        about: Any = pool.root
        if not question.of_root:
            about = pool.run(arguments.pop("run"), arguments.pop("split", "")).data
        given = question.arguments(arguments, attrgetter("tool_default"), value)
        if question.of_root:
            given["summaries"] = default_runtime().summaries  # those of the runs that `pool` opened, too
        return answer(_shortened(question(about, **given)), limits, newest_last=question.newest_last)

    def value(parameter: Parameter, given: Any) -> Any:
        if parameter.type is RunData:
            return pool.run(given).data
        if parameter.is_runs:
            return [pool.run(name).data for name in given or ()]
        if parameter.option.read is not None:
            return parameter.option.read(str(given)) if given not in ("", None) else None
        return given

    parameters = [] if question.of_root else [_parameter("run", Name)]
    parameters += [_tool_parameter(parameter) for parameter in question.parameters if parameter.option.tool]
    if question.has_split and not question.of_root:
        parameters.append(_parameter("split", Split, ""))
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


def _shortened(table: Table) -> Table:
    """Return a table without the items of lists that would fill an answer."""
    most = {column.name: column.most for column in table.columns if column.most is not None}
    if not most:
        return table
    return replace(
        table,
        values={
            name: [items[: most[name]] for items in values] if name in most else values
            for name, values in table.values.items()
        },
    )


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
