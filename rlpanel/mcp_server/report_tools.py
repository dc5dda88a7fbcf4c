"""Tools for investigations: the writing of claims, and the moving of the open board of who allowed it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Protocol

from pydantic import Field

from rlpanel.mcp_server.answer import AnswerLimits, answer, safe_json
from rlpanel.mcp_server.run_pool import RunPool
from rlpanel.queries.reports.claim_report import add_entry, remove_entry

ReportRun = Annotated[str, Field(max_length=1000, description="Name of the run in whose report it stands.")]
Passage = Annotated[
    str, Field(max_length=20_000, description="Markdown: the passage, or the sentence behind the claim.")
]
ReportName = Annotated[str, Field(max_length=80, description="Name of the report; by default Report.")]
EntryId = Annotated[str, Field(max_length=32, description="Id of an entry to replace or remove.")]
Metric = Annotated[str, Field(max_length=200, description="number: a column of the tool steps.")]
Steps = Annotated[
    str, Field(max_length=40, description="number: a step (12), or steps (10..20), whose mean counts.")
]
Expected = Annotated[float | None, Field(description="number: its value; by default as now.")]
Tolerance = Annotated[float | None, Field(ge=0, description="number: allowed difference.")]
Asked = Annotated[
    str, Field(max_length=80, description="query, or number of a cell: the tool that is asked.")
]
AskedOptions = Annotated[dict[str, Any] | None, Field(description="Arguments of that tool.")]
Column = Annotated[str, Field(max_length=200, description="number of a cell: its column.")]
Row = Annotated[int | None, Field(description="number of a cell: its row, from 0.")]
RuleName = Annotated[str, Field(max_length=200, description="finding: name of the rule.")]
Subject = Annotated[str, Field(max_length=200, description="finding: its subject, if the rule has several.")]
Onset = Annotated[int | None, Field(description="finding: its first step; by default as now.")]
SampleUid = Annotated[str, Field(max_length=2000, description="quotation: uid of the sample.")]
TextField = Annotated[
    str, Field(max_length=80, description="quotation: response, prompt, another text, or messages.3.")
]
Quote = Annotated[str, Field(max_length=4000, description="quotation: the exact text.")]
Start = Annotated[
    int | None, Field(description="quotation: where it begins, in characters; by default the first place.")
]
OtherRun = Annotated[str, Field(max_length=1000, description="Name of another run that the claim is about.")]
OtherSplit = Annotated[str, Field(max_length=200, description="Split that the claim is about.")]
ShownAddress = Annotated[
    str,
    Field(
        max_length=8192,
        description="As in links, from the question mark: ?run=exp1&step=12&page=samples.",
    ),
]
PageCode = Annotated[
    str, Field(max_length=40, description="The code that the viewer read on the page Investigations.")
]


class ReportTools:
    """The tool that writes claims; the server has it only if it was started with ``--notes``."""

    def __init__(self, pool: RunPool, limits: AnswerLimits) -> None:
        self._pool, self._limits = pool, limits

    def claim(
        self,
        run: ReportRun,
        kind: Annotated[
            Literal["text", "number", "finding", "quotation", "query", "removed"],
            Field(description="text for a passage without a claim; removed deletes the entry of this id."),
        ],
        text: Passage = "",
        report: ReportName = "",
        id: EntryId = "",
        metric: Metric = "",
        steps: Steps = "",
        expected: Expected = None,
        tolerance: Tolerance = None,
        question: Asked = "",
        options: AskedOptions = None,
        column: Column = "",
        row: Row = None,
        rule: RuleName = "",
        subject: Subject = "",
        onset: Onset = None,
        uid: SampleUid = "",
        field: TextField = "",
        quote: Quote = "",
        start: Start = None,
        other_run: OtherRun = "",
        split: OtherSplit = "",
    ) -> str:
        """Write a claim into the run's report, which is evaluated at each load; a false claim is refused."""
        data = self._pool.run(run).data
        if kind == "removed":
            return answer(remove_entry(data, id), self._limits)
        values: dict[str, Any] = {
            "metric": metric,
            "steps": steps,
            "expected": expected,
            "tolerance": tolerance,
        }
        values |= {"question": question, "options": options, "column": column, "row": row}
        values |= {"rule": rule, "subject": subject, "onset": onset}
        values |= {"uid": uid, "field": field, "text": quote, "start": start}
        given = {name: value for name, value in values.items() if value not in ("", None, {})}
        parts = {"text": text, "report": report, "identifier": id, "other_run": other_run, "split": split}
        table = add_entry(data, kind, claim=given, author="agent", **parts)
        return answer(table, self._limits)


class Shower(Protocol):
    """What moves an open page: a client of a board, or the codes of the board of this process."""

    def show(self, address: str, code: str) -> str:
        """Move the page of a code to an address, and return the address without its host."""


class ShowTool:
    """The tool that moves the open page of the viewer who gave the agent a code.

    Parameters
    ----------
    shower : Shower
    """

    def __init__(self, shower: Shower) -> None:
        self._shower = shower

    def show(
        self,
        address: ShownAddress,
        code: PageCode,
    ) -> str:
        """Move the open page of the viewer who gave you its code: to a run, step, sample, turn or filter."""
        return safe_json({"shown": self._shower.show(address, code)})
