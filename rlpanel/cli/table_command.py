"""Makes commands of functions that return a table: adds the reader's options and the formats."""

from __future__ import annotations

import atexit
import gc
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_type_hints

import typer

from rlpanel.cli import shared_options
from rlpanel.cli.exit_codes import INCOMPLETE
from rlpanel.cli.output.table_output import one_format, print_table
from rlpanel.cli.reader_settings import say_remarks, say_unread, set_reader_environment

if TYPE_CHECKING:
    from rlpanel.api.run import Run
    from rlpanel.tables.table import Table

_READER = ("split", "jobs", "keys", "tokenizer", "follow_links")
_FORMATS = ("as_json", "as_jsonl", "as_csv", "raw")


def run_command(function: Callable[..., Table]) -> Callable[..., None]:
    """Return the command for a function whose first parameter is an opened run.

    The command's first argument is the run's folder. It reads the run, or takes it from the cache, prints the
    table, and exits with 3 if a file of the run was not read.

    Parameters
    ----------
    function : callable
        Its name and docstring are those of the command. Its other parameters are annotated for typer.
    """

    def command(run: str, **options: Any) -> None:
        reader, formats = (_take(options, names) for names in (_READER, _FORMATS))
        form = one_format(**{name: formats[name] for name in _FORMATS[:3]})
        with ExitStack() as stack:
            stack.enter_context(_rare_collection())
            opened = stack.enter_context(opened_run(run, **reader))
            print_table(function(opened, **options), form, raw=formats["raw"])
            unread, remarks = opened.snapshot.unread, opened.snapshot.remarks
        say_remarks(remarks)
        say_unread(unread)
        if unread:
            raise typer.Exit(INCOMPLETE)

    return _described(command, function, ["run"], [*_READER, *_FORMATS], skip=1)


def root_command(function: Callable[..., Table]) -> Callable[..., None]:
    """Return the command for a function without a run, which gets the formats and fewer reader options."""
    reader = ("keys", "follow_links")

    def command(**options: Any) -> None:
        settings, formats = (_take(options, names) for names in (reader, _FORMATS))
        form = one_format(**{name: formats[name] for name in _FORMATS[:3]})
        set_reader_environment(settings["keys"], None, settings["follow_links"])
        print_table(function(**options), form, raw=formats["raw"])

    return _described(command, function, [], [*reader, *_FORMATS], skip=0)


def opened_run(
    run: str, *, split: str = "", jobs: int | None = None, keys: Any = None, tokenizer: Any = None,
    follow_links: bool = False,
) -> Run:  # fmt: skip
    """Open a run, or one split of it, with the reader's options of a command; it is not followed."""
    set_reader_environment(keys, tokenizer, follow_links)
    from rlpanel.api.open_run import open_run

    opened = open_run(run, follow=False, jobs=jobs)
    return opened.split(split) if split else opened


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


def _take(options: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Remove some options and return them."""
    return {name: options.pop(name) for name in names}


def _described(
    command: Callable[..., None],
    function: Callable[..., Table],
    before: Sequence[str],
    after: Sequence[str],
    *,
    skip: int,
) -> Callable[..., None]:
    """Give a command the name, docstring and parameters of a function, and shared parameters around them.

    Parameters
    ----------
    before, after : sequence of str
        Names in `shared_options.SHARED`.
    skip : int
        Number of first parameters of the function that the command does not have.
    """
    own = list(inspect.signature(function).parameters.values())[skip:]
    texts = {name: function.__annotations__[name] for name in (parameter.name for parameter in own)}
    hints = get_type_hints(
        SimpleNamespace(__annotations__=texts), vars(inspect.getmodule(function)), None, True
    )
    parameters = [_shared(name) for name in before]
    parameters += [
        parameter.replace(annotation=hints[parameter.name], kind=parameter.POSITIONAL_OR_KEYWORD)
        for parameter in own
    ]
    parameters += [_shared(name) for name in after]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__name__, command.__doc__ = function.__name__, function.__doc__
    return command


def _shared(name: str) -> inspect.Parameter:
    annotation, default = shared_options.SHARED[name]
    return inspect.Parameter(
        name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation
    )
