"""Makes commands of questions: adds the reader's options and the formats."""

from __future__ import annotations

import atexit
import gc
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer

from rlpanel.cli import shared_options
from rlpanel.cli.shared_options import say_left_out, say_remarks, say_unread, set_reader_environment
from rlpanel.cli.table_output import one_format, print_table
from rlpanel.cli.terminal_messages import INCOMPLETE
from rlpanel.queries.question import Parameter, Question
from rlpanel.queries.run_data import RunData

if TYPE_CHECKING:
    from rlpanel.api.run import Run
    from rlpanel.queries.table import Table

_READER = ("split", "jobs", "keys", "default_step", "tokenizer", "follow_links")
#: Options of the reader of commands for a folder of runs.
_OF_ROOT = ("keys", "default_step", "follow_links")
_FORMATS = ("as_json", "as_jsonl", "as_csv", "raw")


def command_of(question: Question[...]) -> Callable[..., None]:
    """Return the command that asks a question: its text and its options are those of the function."""
    command: Callable[..., None]
    if question.of_root:

        def list_runs(**options: Any) -> None:
            reader, formats = _take(options, _OF_ROOT), _take(options, _FORMATS)
            form = _form(formats)
            set_reader_environment(reader["keys"], None, reader["follow_links"], reader["default_step"])
            table = question(**_given(question, options))
            if not table.total:
                from rlpanel.cli.serve_commands import warn_without_runs
                from rlpanel.sources.files.file_access import path_of

                warn_without_runs(path_of(options["root"]), "runs")
            if table.total or form != "text":  # "no rows" would say less
                print_table(table, form, raw=formats["raw"], sort=_sorted_by(options))

        command = list_runs
    else:

        def ask(run: str, **options: Any) -> None:
            def answer(opened: Run) -> Table:
                # Questions that do not count rewards may have an option of that name of their own.
                by = options.pop("by") if question.counts else ""
                counted = opened.by_rows if by == "rows" else opened
                with _others(run, question, options) as given:
                    return question(counted.data, **_given(question, given))

            print_answer(run, answer, options)

        command = ask
    own = [_typer_parameter(parameter) for parameter in question.parameters if parameter.option.command]
    by = [shared_parameter("by")] if question.counts else []
    run = [] if question.of_root else [shared_parameter("run")]
    reader = _reader_parameters(own, _OF_ROOT if question.of_root else _READER)
    parameters = [*run, *own, *by, *reader, *map(shared_parameter, _FORMATS)]
    return described(command, question.name, _printed(question.text), parameters)


def print_answer(run: str, answer: Callable[[Run], Table], options: dict[str, Any]) -> None:
    """Open a run and print the answer about it; exit with 3 if one of its files was not read.

    Parameters
    ----------
    run : str
    answer : callable
    options : dict
        Options of the command; those of the reader and of the formats are taken out.
    """
    reader, formats = _take(options, _READER), _take(options, _FORMATS)
    form = _form(formats)
    with ExitStack() as stack:
        stack.enter_context(_rare_collection())
        opened = stack.enter_context(opened_run(run, **reader))
        print_table(answer(opened), form, raw=formats["raw"], sort=_sorted_by(options))
        from rlpanel.store.snapshot.left_out import left_out

        unread, remarks = opened.snapshot.unread, opened.snapshot.remarks
        left = left_out(opened.snapshot)
    say_remarks(remarks)
    say_left_out(left)
    say_unread(unread)
    if unread:
        raise typer.Exit(INCOMPLETE)


def _sorted_by(options: Mapping[str, Any]) -> str:
    """Return the column that a command's rows are sorted by; empty if none was given."""
    return str(options.get("sort") or "").removeprefix("-")


def run_command(function: Callable[..., Table]) -> Callable[..., None]:
    """Return the command for a function of an opened run whose other parameters are annotated for typer."""

    def command(run: str, **options: Any) -> None:
        own = _take(options, list(names))
        print_answer(run, lambda opened: function(opened, **own), options)

    signature = inspect.signature(function, eval_str=True, locals={"Run": Any, "Table": Any})
    own = list(signature.parameters.values())[1:]
    names = [parameter.name for parameter in own]
    reader = _reader_parameters(own, _READER)
    parameters = [shared_parameter("run"), *own, *reader, *map(shared_parameter, _FORMATS)]
    return described(command, function.__name__, function.__doc__ or "", parameters)


def opened_run(
    run: str, *, split: str = "", jobs: int | None = None, keys: Any = None, default_step: int | None = None,
    tokenizer: Any = None, follow_links: bool = False,
) -> Run:  # fmt: skip
    """Open a run, or one split of it, with the reader's options of a command; it is not followed."""
    set_reader_environment(keys, tokenizer, follow_links, default_step)
    from rlpanel.api.open_run import open_run

    opened = open_run(run, follow=False, jobs=jobs)
    return opened.split(split) if split else opened


@contextmanager
def _others(run: str, question: Question[...], options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Open the other runs that a question is given by their folders."""
    from rlpanel.api.open_run import open_run

    with ExitStack() as stack:
        opened: dict[str, Any] = {
            parameter.name: stack.enter_context(open_run(options[parameter.name], follow=False)).data
            for parameter in question.parameters
            if parameter.type is RunData
        }
        for parameter in question.parameters:
            if parameter.is_runs:
                names = shared_options.names(options[parameter.name] or "") or []
                opened[parameter.name] = [
                    stack.enter_context(open_run(_beside(run, name), follow=False)).data for name in names
                ]
        yield {**options, **opened}


def _beside(run: str, name: str) -> str:
    """Return the folder of a run that is given by its path, or by its name beside another run."""
    beside = os.path.join(os.path.dirname(os.path.abspath(run)), name)
    return beside if not os.path.isdir(name) and os.path.isdir(beside) else name


def _given(question: Question[...], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the question's function for the values that the command line gave."""
    return question.arguments(options, attrgetter("command_default"), _value)


def _value(parameter: Parameter, value: Any) -> Any:
    option = parameter.option
    if option.none is not None and value == option.none:
        return None
    if option.read is not None:
        return option.read(value) if value else None
    if parameter.is_list and isinstance(value, str):
        return shared_options.names(value)
    return value.value if isinstance(value, StrEnum) else value


def _typer_parameter(parameter: Parameter) -> inspect.Parameter:
    """Return the parameter of a command, annotated for typer."""
    option = parameter.option
    kind: Any = parameter.type
    default = parameter.command_default
    if option.none == 0:
        kind = int
    elif get_origin(kind) is Literal:
        kind = StrEnum(  # type: ignore[misc,no-redef]
            parameter.name, {value.upper(): value for value in get_args(kind)}
        )
        default = kind(default)
    elif parameter.is_list and option.metavar:
        kind = list[str] | None  # several arguments, which may hold commas
    elif kind in (RunData, Any) or parameter.is_list:
        kind = str
    elif tuple[int, int] in get_args(kind):
        kind = str if option.read is not None else int | None
    return inspect.Parameter(
        parameter.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default,
        annotation=Annotated[kind, shared_options.declared(option, parameter.name)],
    )  # fmt: skip


def _printed(text: str) -> str:
    """Return a docstring as the help of a command, which prints what the function returns."""
    return text.replace("Return ", "Print ", 1) if text.startswith("Return ") else text


def described(
    command: Callable[..., None], name: str, text: str, parameters: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """Give a command its name, its help and its parameters."""
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__name__, command.__doc__ = name, text
    return command


def _reader_parameters(own: Sequence[inspect.Parameter], names: Sequence[str]) -> list[inspect.Parameter]:
    """Return the reader's parameters of a command; ``--step`` is the command's own if it has one."""
    chooses = any(parameter.name == "step" for parameter in own)
    return [
        shared_parameter(name, "only_default_step" if chooses and name == "default_step" else name)
        for name in names
    ]


def shared_parameter(name: str, declared: str = "") -> inspect.Parameter:
    """Return a parameter of `shared_options.SHARED`, declared under its own or another name there."""
    annotation, default = shared_options.SHARED[declared or name]
    return inspect.Parameter(
        name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation
    )


def _form(formats: Mapping[str, Any]) -> str:
    return one_format(**{name: formats[name] for name in _FORMATS[:3]})


def _take(options: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Remove some options and return them."""
    return {name: options.pop(name) for name in names}


@contextmanager
def _rare_collection() -> Iterator[None]:
    """Let the garbage collector run rarely: imports make many objects that stay, which it would walk.

    Python would walk them once more at exit, although all memory is freed then.
    """
    atexit.register(gc.freeze)
    before = gc.get_threshold()
    gc.set_threshold(200_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
