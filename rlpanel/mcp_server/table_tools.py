"""The tools of the server, which are the tables of `rlpanel.tables`, and the links to the board.

The docstring of a tool is what an agent reads about it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from rlpanel.board_url import board_link
from rlpanel.mcp_server.answer import AnswerLimits, answer, safe_json
from rlpanel.mcp_server.run_pool import RunPool
from rlpanel.tables import (
    compare_rows,
    contrast_rows,
    finding_rows,
    group_rows,
    note_rows,
    one_sample,
    prompt_rows,
    run_rows,
    sample_rows,
    search_rows,
    sql_rows,
    step_rows,
    token_rows,
)
from rlpanel.texts.shorten import TextLimit

#: Most rows of one answer, whatever an agent asks for.
MOST_ROWS = 500
#: Most bytes of the rows of a query, of which an answer holds a small part.
_SQL_BYTES = 8 << 20

_Tool = TypeVar("_Tool", bound=Callable[..., str])

Name = Annotated[str, Field(max_length=1000, description="Name of the run, as the tool runs lists it.")]
Split = Annotated[str, Field(max_length=200, description="Split; by default training.")]
Step = Annotated[int | None, Field(description="Only this step.")]
OneStep = Annotated[int | None, Field(description="The step; by default the newest complete one.")]
Limit = Annotated[int, Field(ge=1, le=MOST_ROWS, description="Most rows.")]
Offset = Annotated[int, Field(ge=0, description="Rows to skip: next_offset of the answer before.")]
Filter = Annotated[
    str, Field(max_length=4000, description="Filter expression: reward < 0 and lang == 'zh'; empty for all.")
]
Sort = Annotated[str, Field(max_length=200, description="Number column; a leading - sorts descending.")]
Columns = Annotated[list[str] | None, Field(max_length=200, description="Columns; ['*'] for all.")]
Chars = Annotated[int, Field(ge=0, le=50_000, description="Most characters of each text.")]
Uid = Annotated[str, Field(max_length=2000, description="Uid of a sample, as other tools return it.")]
Text = Annotated[bool, Field(description="Also read prompts and responses, which are untrusted texts.")]
Selection = Annotated[
    str, Field(max_length=4000, description="A step (12), steps (10..20), or a filter expression.")
]


class TableTools:
    """Tools that read.

    Parameters
    ----------
    pool : RunPool
    limits : AnswerLimits
    board : str
        Address of the board, for links.
    """

    def __init__(self, pool: RunPool, limits: AnswerLimits, board: str) -> None:
        self._pool, self._limits, self._board = pool, limits, board

    def runs(self, limit: Limit = 20, offset: Offset = 0) -> str:
        """List the runs, the newest first: samples, newest step, its reward and the reward's trend."""
        return answer(run_rows.runs(self._pool.root, limit=limit, offset=offset), self._limits)

    def findings(self, run: Name, split: Split = "") -> str:
        """List what rules find wrong in a run: start here. Alarms first, with evidence and advice."""
        return answer(finding_rows.findings(self._pool.run(run, split)), self._limits)

    def steps(
        self,
        run: Name,
        columns: Columns = None,
        last: Annotated[int, Field(ge=1, le=MOST_ROWS, description="Number of steps, the newest ones.")] = 20,
        step: Step = None,
        split: Split = "",
    ) -> str:
        """List the steps of a run with means and step metrics; about.available names all columns."""
        table = step_rows.steps(self._pool.run(run, split), columns=columns, last=last, step=step)
        return answer(table, self._limits, newest_last=True)

    def samples(
        self,
        run: Name,
        filter: Filter = "",
        step: Step = None,
        sort: Sort = "",
        columns: Columns = None,
        text: Text = False,
        chars: Chars = 300,
        limit: Limit = 20,
        offset: Offset = 0,
        split: Split = "",
    ) -> str:
        """List samples that pass a filter, sorted, with numbers, labels and optionally texts."""
        table = sample_rows.samples(
            self._pool.run(run, split),
            filter=filter,
            step=step,
            sort=sort,
            columns=columns,
            text=text,
            limits=TextLimit(chars),
            limit=limit,
            offset=offset,
        )
        return answer(table, self._limits)

    def sample(
        self,
        run: Name,
        uid: Uid,
        chars: Chars = 4000,
        start: Annotated[int, Field(ge=0, description="Characters of each text to skip.")] = 0,
    ) -> str:
        """Show one sample with its texts and all numbers; start pages through long texts."""
        limits = TextLimit(chars, start)
        return answer(one_sample.sample(self._pool.run(run), uid, limits=limits), self._limits)

    def sample_tokens(
        self, run: Name, uid: Uid, metrics: Columns = None, limit: Limit = 100, offset: Offset = 0
    ) -> str:
        """List the response tokens of one sample with metrics such as kl_k3, value and surprisal."""
        found = self._pool.run(run)
        table = one_sample.sample_tokens(found, uid, metrics=metrics, limit=limit, offset=offset)
        return answer(table, self._limits)

    def groups(
        self,
        run: Name,
        step: OneStep = None,
        sort: Sort = "",
        text: Text = False,
        limit: Limit = 20,
        offset: Offset = 0,
        split: Split = "",
    ) -> str:
        """List the groups of a step (samples of one prompt) and whether their rewards differ."""
        found = self._pool.run(run, split)
        table = group_rows.groups(
            found, step, sort=sort, text=text, limits=TextLimit(300), limit=limit, offset=offset
        )
        return answer(table, self._limits)

    def prompts(
        self,
        run: Name,
        kind: Literal["unsolved", "variable"] = "unsolved",
        text: Text = True,
        limit: Limit = 20,
        offset: Offset = 0,
        split: Split = "",
    ) -> str:
        """List prompts that stay unsolved over the steps, or whose rewards vary most within a step."""
        found = self._pool.run(run, split)
        table = prompt_rows.prompts(found, kind, text=text, limits=TextLimit(300), limit=limit, offset=offset)
        return answer(table, self._limits)

    def tokens(
        self,
        run: Name,
        step: OneStep = None,
        metric: Annotated[str, Field(max_length=100, description="kl_k3, surprisal, value_error, ...")] = "",
        filter: Filter = "",
        least: Annotated[int, Field(ge=1, description="Leave out tokens that are rarer.")] = 3,
        limit: Limit = 20,
        split: Split = "",
    ) -> str:
        """Rank the tokens of a step by mean KL, surprisal or value error; reads the lines of the step."""
        found = self._pool.run(run, split)
        table = token_rows.tokens(found, step, metric=metric or None, filter=filter, least=least, limit=limit)
        return answer(table, self._limits)

    def contrast(
        self,
        run: Name,
        a: Selection,
        b: Annotated[
            str, Field(max_length=4000, description="Samples to compare with; by default the rest.")
        ] = "",
        limit: Limit = 20,
        offset: Offset = 0,
        split: Split = "",
    ) -> str:
        """List what is different between two sets of samples: numbers, labels, words, openings."""
        other = contrast_rows.selection_of(b) if b else None
        table = contrast_rows.contrast(
            self._pool.run(run, split), contrast_rows.selection_of(a), other, limit=limit, offset=offset
        )
        for row in table.rows:  # 200 uids a row would fill the answer
            row["uids_a"], row["uids_b"] = row["uids_a"][:3], row["uids_b"][:3]
        return answer(table, self._limits)

    def compare(
        self, run: Name, against: Name, text: Text = True, limit: Limit = 20, offset: Offset = 0
    ) -> str:
        """Compare two runs on the prompts that both have: won, tied, lost, and the prompts."""
        here, there = self._pool.run(run), self._pool.run(against)
        table = compare_rows.compare(
            here, there, text=text, limits=TextLimit(300), limit=limit, offset=offset
        )
        return answer(table, self._limits)

    def search(
        self,
        run: Name,
        text: Annotated[
            str, Field(min_length=1, max_length=2000, description="Text, or /regular expression/.")
        ],
        filter: Filter = "",
        step: Step = None,
        limit: Limit = 20,
        offset: Offset = 0,
        split: Split = "",
    ) -> str:
        """Find samples by a text in their prompts or responses, newest first; stops when it has enough."""
        found = self._pool.run(run, split)
        table = search_rows.search(found, text, filter=filter, step=step, limit=limit, offset=offset)
        return answer(table, self._limits)

    def sql(
        self,
        run: Name,
        query: Annotated[
            str, Field(max_length=20_000, description="One SELECT statement; page by LIMIT, OFFSET.")
        ],
        split: Split = "",
    ) -> str:
        """Run one SQL SELECT over samples, steps, groups, findings, tokens(FIRST, LAST); see docs/sql."""
        found = self._pool.run(run, split)
        return answer(sql_rows.sql(found, query, rows=MOST_ROWS, size=_SQL_BYTES), self._limits)

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
        return answer(note_rows.annotate(self._pool.run(run), uid, tag=tag), self._limits)

    def note(
        self,
        run: Name,
        uid: Uid,
        note: Annotated[str, Field(max_length=2000, description="Empty removes it.")],
    ) -> str:
        """Set the note of a sample, which people see on the board."""
        return answer(note_rows.annotate(self._pool.run(run), uid, note=note), self._limits)


#: Names of the tools that read, in the order in which an agent needs them.
READING = (
    *("runs", "findings", "steps", "samples", "sample", "sample_tokens", "groups", "prompts", "tokens"),
    *("contrast", "compare", "search", "sql", "link"),
)
WRITING = ("tag", "note")
