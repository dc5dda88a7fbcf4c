"""Questions to a run: each is one function that returns a table, and is registered for all doors.

A method of `Run`, a command, a tool of the server for agents, a table of SQL and a panel follow from the
function's signature and docstring. A module of questions imports what it needs when it is asked, so that the
command line can list all questions without loading numpy or pandas.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Annotated, Any, Generic, ParamSpec, get_args, get_origin, get_type_hints

from rlpanel.errors import SettingError
from rlpanel.queries.question_options import SAME, Option
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import LEFT_OUT, Table, TableColumn, TableSpec

#: The columns of a table, or a function that returns them if they are described by metrics.
Columns = tuple[TableColumn, ...] | Callable[[], tuple[TableColumn, ...]]
_Asked = ParamSpec("_Asked")


@dataclass(frozen=True)
class Parameter:
    """An option of a question in the doors that are not Python."""

    name: str
    type: Any
    default: Any
    option: Option

    @property
    def command_default(self) -> Any:
        """The value that a command passes without the option; `SAME` if it passes none."""
        return self._default_of(self.option.default, self.option.command)

    @property
    def tool_default(self) -> Any:
        """The value that a tool passes without the argument; `SAME` if it passes none."""
        return self._default_of(self.option.tool_default, self.option.tool)

    def _default_of(self, declared: Any, exists: bool) -> Any:
        return (self.default if exists else SAME) if declared is SAME else declared

    @property
    def is_runs(self) -> bool:
        """Whether its value is a list of runs."""
        return get_args(self.type) == (RunData,)

    @property
    def is_list(self) -> bool:
        """Whether its value is a list of texts, or of names of runs."""
        return any(get_origin(part) is Sequence for part in (self.type, *get_args(self.type)))


@dataclass(frozen=True)
class Question(Generic[_Asked]):
    """A question and how it is asked in each door.

    Attributes
    ----------
    function : callable
        Takes a `RunData`, or a root folder, and options; returns a `Table`.
    name : str
        Name of the question, its table, its command and its tool.
    description : str
        What the table holds, in one sentence.
    columns, others, optional, about, frame, relation
        As in `TableSpec`.
    example : str
        A command that asks it; empty if no command is made.
    agents : str or callable
        What an agent reads about the tool; by default the docstring's first line. A function if it depends on
        the registered questions.
    has_tool, has_relation : bool
        Whether there is a tool, and a table of SQL. A question with a required option has no table of SQL.
    has_split : bool
        Whether the tool can be asked about one split.
    counts : bool
        Whether the command can count rows instead of episodes.
    newest_last : bool
        Whether rows at the beginning are left out of a long answer of a tool, since they are the oldest.
    relation_options : mapping
        Options of the table of SQL, which has the rows of the whole run.
    """

    function: Callable[_Asked, Table]
    name: str
    description: str
    columns: Columns
    others: str = ""
    optional: Callable[[], tuple[TableColumn, ...]] = tuple
    about: tuple[TableColumn, ...] = ()
    frame: tuple[str, ...] = ()
    relation: tuple[str, ...] = ()
    example: str = ""
    agents: str | Callable[[], str] = ""
    has_tool: bool = True
    has_relation: bool = True
    has_split: bool = True
    counts: bool = False
    newest_last: bool = False
    relation_options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, *args: _Asked.args, **options: _Asked.kwargs) -> Table:
        """Answer the question, and say what the numbers of the run leave out."""
        table = self.function(*args, **options)
        run = next(iter(args), None)
        if not isinstance(run, RunData):
            return table
        return replace(table, facts={**table.facts, "left_out": lambda: _left_out(run)})

    def checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return options as the function takes them; a text for a list of texts is split at its commas.

        Raises
        ------
        SettingError
            If the question has no such option; the message suggests a similar one.
        """
        from rlpanel.queries.run_columns import similar

        known = [*inspect.signature(self.function).parameters][1:]
        lists = {parameter.name for parameter in self.parameters if parameter.is_list}
        for name in options:
            if name not in known:
                raise SettingError(
                    f"the question {self.name!r} has no option {name[:80]!r}{similar(name, known)}"
                )
        return {
            name: [part.strip() for part in value.split(",")]
            if name in lists and isinstance(value, str)
            else value
            for name, value in options.items()
        }

    @cached_property
    def spec(self) -> TableSpec:
        """The declaration of the table."""
        columns = self.columns() if callable(self.columns) else self.columns
        about = self.about if self.of_root else (*self.about, LEFT_OUT)
        shown = (self.description, columns, self.others, self.optional(), about)
        return TableSpec(self.name, *shown, self.frame, self.relation)

    @property
    def table(self) -> Callable[..., Table]:
        """The function that makes the table, see `TableSpec.table`."""
        return self.spec.table

    @property
    def text(self) -> str:
        """The docstring without its sections, such as its parameters."""
        text = inspect.cleandoc(self.function.__doc__ or "")
        return text.partition("\n\nParameters\n")[0].partition("\n\nRaises\n")[0]

    @property
    def agents_text(self) -> str:
        """The description of the tool for agents."""
        given = self.agents() if callable(self.agents) else self.agents
        return given or self.text.partition("\n")[0]

    @cached_property
    def of_root(self) -> bool:
        """Whether it is asked of a folder of runs."""
        return next(iter(inspect.signature(self.function).parameters)) == "root"

    @cached_property
    def parameters(self) -> list[Parameter]:
        """The parameters with an `Option`, in order; only those exist outside of Python."""
        own = inspect.signature(self.function).parameters
        texts = {name: self.function.__annotations__[name] for name in own}
        known = vars(inspect.getmodule(self.function))
        hints = get_type_hints(SimpleNamespace(__annotations__=texts), known, None, True) if own else {}
        found = []
        for name, hint in hints.items():
            option = next((each for each in get_args(hint) if isinstance(each, Option)), None)
            if get_origin(hint) is Annotated and option is not None:
                found.append(Parameter(name, get_args(hint)[0], own[name].default, option))
        return found

    def arguments(
        self,
        given: Mapping[str, Any],
        default: Callable[[Parameter], Any],
        value: Callable[[Parameter, Any], Any],
    ) -> dict[str, Any]:
        """Return the arguments of the function for what was given in a door.

        Parameters
        ----------
        given : mapping
            Values by name.
        default : callable
            Returns the door's default of a parameter; `SAME` for that of the function.
        value : callable
            Returns what the function takes for a value of the door.
        """
        return {
            parameter.name: value(parameter, given.get(parameter.name, usual))
            for parameter in self.parameters
            if (usual := default(parameter)) is not SAME or parameter.name in given
        }

    @property
    def is_relation(self) -> bool:
        """Whether it is a table of SQL."""
        needs = any(parameter.default is inspect.Parameter.empty for parameter in self.parameters)
        return self.has_relation and not self.of_root and not needs


def _left_out(run: RunData) -> dict[str, object]:
    from rlpanel.store.snapshot.left_out import left_out

    return left_out(run.snapshot).listed


#: All questions by name, in the order in which they are listed; `rlpanel.queries.catalogue` imports them.
QUESTIONS: dict[str, Question[...]] = {}


def question(**declared: Any) -> Callable[[Callable[_Asked, Table]], Question[_Asked]]:
    """Register a function as a question; the options are the attributes of `Question`."""

    def register(function: Callable[_Asked, Table]) -> Question[_Asked]:
        name = declared.pop("name", function.__name__)
        made = Question(function, name, **declared)
        QUESTIONS[name] = made
        return made

    return register
