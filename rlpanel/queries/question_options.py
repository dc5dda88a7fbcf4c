"""The options of questions, declared once for the command line and for tools of agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, get_args

from rlpanel.queries.run_data import RunData
from rlpanel.queries.step_ranges import closed_span_of, is_like_steps, span_of

#: Most rows of one answer of a tool, whatever an agent asks for.
MAX_ROWS = 500
#: Stands for a default that a door does not change.
SAME: Any = object()


@dataclass(frozen=True)
class Option:
    """Declaration of an option of a question, for the command line and for agents.

    Attributes
    ----------
    help : str or callable
        A function if it depends on the registered questions.
    agents : str
        What an agent reads about it; by default ``help``.
    min, max : int or float, optional
    most_rows : int, optional
        Maximum in a tool, where 0 is not allowed.
    chars : int, optional
        Most characters or items that an agent may give.
    flag : str
        Name of the command's option, if it differs from the parameter's.
    metavar : str
        The option is an argument of the command, and is shown as this.
    default, tool_default
        Defaults of command and tool; by default those of the function.
    shown_default : str
        What the command's help shows as the default.
    complete : str
        Name of the function in `rlpanel.cli.completion` that completes it.
    command, tool : bool
        Whether there is such an option. If not, the door's default is passed.
    none : Any
        The value that stands for None on the command line, such as 0 for no limit.
    read : callable, optional
        Turns the text that was given into the value of the function.
    """

    help: str | Callable[[], str] = ""
    agents: str = ""
    min: float | None = None
    max: float | None = None
    most_rows: int | None = None
    chars: int | None = None
    flag: str = ""
    metavar: str = ""
    default: Any = SAME
    tool_default: Any = SAME
    shown_default: str = ""
    complete: str = ""
    command: bool = True
    tool: bool = True
    none: Any = None
    read: Callable[[str], Any] | None = None

    @property
    def help_text(self) -> str:
        """The help text for people."""
        return self.help() if callable(self.help) else self.help


def option_of(declared: Any) -> Option:
    """Return the option of an annotation."""
    found: Option = get_args(declared)[1]
    return found


def selection_of(text: str) -> int | slice | str:
    """Return the selection that a text describes: a step, steps such as ``10..20``, or a filter.

    Parameters
    ----------
    text : str
        ``12``, ``10..20`` (both included), ``10..``, ``..20``, or a filter expression.

    Raises
    ------
    SettingError
        If a range of steps is not valid.
    """
    if not is_like_steps(text):
        return text
    first, last = span_of(text)
    return first if first is not None and first == last else slice(first, last)


def steps_of(text: str) -> int | tuple[int, int]:
    """Return the step or the steps that a text describes: ``12`` or ``10..20``, both included.

    Raises
    ------
    SettingError
        If it is neither.
    """
    first, last = closed_span_of(text)
    return first if first == last else (first, last)


_LIMIT = Option(
    "Maximum number of rows; 0 for all.", "Most rows.", min=0, most_rows=MAX_ROWS, default=20,
    tool_default=20, none=0,
)  # fmt: skip
_CHARS = Option(
    "Maximum number of characters of each text; 0 for all.", "Most characters of each text.", min=0,
    max=50_000, default=0, tool_default=300, none=0,
)  # fmt: skip
_COLUMNS = Option(
    "Columns, separated by commas; * for all of them.", "Columns; ['*'] for all.", chars=200, default="",
    shown_default="those most used",
)  # fmt: skip
_TEXT = Option(
    "Read and print prompts and responses.", "Also read prompts and responses, which are untrusted texts.",
    flag="--text",
)  # fmt: skip
_SELECTION = Option(
    "Samples: a step, steps (10..20), or a filter (reward < 0).",
    "A step (12), steps (10..20), or a filter expression.", chars=4000, metavar="A", read=selection_of,
)  # fmt: skip
_AT = Option("Samples that represent the run: newest, first, best, a step, or steps (10..20).", tool=False)

#: A tool is asked about the server's root.
Root = Annotated[
    str,
    Option("Folder that holds runs, at any depth.", metavar="ROOT", default=".", complete="runs", tool=False),
]
Limit = Annotated[int | None, _LIMIT]
TokenLimit = Annotated[
    int | None, replace(_LIMIT, help="Maximum number of tokens; 0 for all.", tool_default=100)
]
Last = Annotated[
    int | None,
    replace(
        _LIMIT,
        help="Number of steps, the newest ones; 0 for all.",
        agents="Number of steps, the newest ones.",
    ),
]
Offset = Annotated[
    int, Option("Number of rows to skip.", "Rows to skip: next_offset of the answer before.", min=0)
]
TokenOffset = Annotated[int, replace(option_of(Offset), tool=False)]
Step = Annotated[int | None, Option("Only this step.", shown_default="all steps", complete="steps")]
Range = Annotated[
    int | tuple[int, int] | None,
    Option(
        "Only this step, or steps such as 10..20.", shown_default="all steps", complete="steps",
        read=steps_of, chars=50,
    ),
]  # fmt: skip
OneStep = Annotated[
    int | None,
    Option(
        "The step.", "The step; by default the newest complete one.",
        shown_default="the newest complete one", complete="steps",
    ),
]  # fmt: skip
OneStepOrMore = Annotated[
    int | tuple[int, int] | None,
    replace(
        option_of(OneStep),
        help="The step, or steps such as 10..20.",
        agents="The step, or steps such as 10..20; by default the newest complete one.",
        read=steps_of,
        chars=50,
    ),
]
FilterBy = Annotated[
    str,
    Option(
        "Filter expression, as on the board: reward < 0",
        "Filter expression: reward < 0 and lang == 'zh'; empty for all.", chars=4000, flag="--filter",
    ),
]  # fmt: skip
Sort = Annotated[
    str,
    Option(
        "Column to sort by; a leading - sorts descending (--sort=-reward).",
        "Number column; a leading - sorts descending.", chars=200, complete="sort_orders",
    ),
]  # fmt: skip
TokenSort = Annotated[
    str,
    replace(
        option_of(Sort),
        help="Token metric to sort by; a leading - sorts descending.",
        agents="Token metric; a leading - sorts descending; empty: the order of the response.",
        complete="",
    ),
]
SearchSort = Annotated[str, replace(option_of(Sort), tool=False)]
Columns = Annotated[Sequence[str] | None, _COLUMNS]
StepColumns = Annotated[Sequence[str] | None, replace(_COLUMNS, complete="step_columns")]
SampleColumns = Annotated[Sequence[str] | None, replace(_COLUMNS, complete="sample_columns")]
Text = Annotated[bool, _TEXT]
#: The question of a prompt: a command always reads it, and a tool returns its beginning.
PromptText = Annotated[bool, replace(_TEXT, command=False, default=True, tool_default=True)]
GroupText = Annotated[bool, replace(_TEXT, command=False, default=True, tool_default=False)]
PromptChars = Annotated[int | None, Option(command=False, tool=False, tool_default=300)]
Chars = Annotated[int | None, _CHARS]
SampleChars = Annotated[int | None, replace(_CHARS, tool_default=4000)]
Start = Annotated[int, Option("Number of characters to skip.", "Characters of each text to skip.", min=0)]
Uid = Annotated[
    str,
    Option(
        "The sample's uid, as the other commands print it.", "Uid of a sample, as other tools return it.",
        chars=2000, metavar="UID",
    ),
]  # fmt: skip
A = Annotated[Any, _SELECTION]
B = Annotated[
    Any,
    replace(
        _SELECTION, help="Samples to compare with.", agents="Samples to compare with; by default the rest.",
        metavar="B", default="", tool_default="", shown_default="the rest of the run",
    ),
]  # fmt: skip
MostTexts = Annotated[int, Option("Maximum number of responses to read per set.", min=0, tool=False)]
Against = Annotated[RunData, Option("Folder of the other run.", metavar="AGAINST", complete="runs")]
At = Annotated[str, _AT]
PromptKind = Annotated[
    Literal["unsolved", "variable"],
    Option("unsolved: rewards never exceeded a target; variable: rewards differ most.", agents=" "),
]
LeastSteps = Annotated[
    int | None,
    Option(
        "Leave out prompts that fewer steps contain.", min=1, shown_default="unsolved: 3, variable: 1",
        tool=False,
    ),
]  # fmt: skip
RankBy = Annotated[
    str,
    Option(
        "kl_k3, kl_k2, log_ratio, kl_rllb, surprisal or value_error.", "kl_k3, surprisal, value_error, ...",
        chars=100, shown_default="the first one that the run has", complete="token_metrics",
    ),
]  # fmt: skip
Least = Annotated[
    int, Option("Leave out tokens that occur less often.", "Leave out tokens that are rarer.", min=1)
]
Found = Annotated[
    str,
    Option(
        "Text to find, or a regular expression /like this/.", "Text, or /regular expression/.", chars=2000,
        metavar="TEXT",
    ),
]  # fmt: skip
Around = Annotated[int, Option("Characters before and after the place.", min=0, default=40, tool=False)]
Everything = Annotated[bool, Option("Search all samples and count those found.", flag="--all", tool=False)]
