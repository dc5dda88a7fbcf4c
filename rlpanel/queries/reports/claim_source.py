"""Sources of the values of claims: questions by name, findings and samples, with digests of tables."""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

import numpy as np

from rlpanel.errors import RLPanelError, RunNotFound, SampleNotFound, SettingError, describe_error
from rlpanel.investigations.report_entry import ClaimBroken, ClaimValue, ReportEntry
from rlpanel.queries.question import Parameter, Question
from rlpanel.queries.question_options import MAX_ROWS
from rlpanel.queries.run_data import RunData
from rlpanel.queries.step_ranges import closed_span_of
from rlpanel.queries.table import Table
from rlpanel.schema import TEXTS
from rlpanel.sources.files.file_access import AnyPath, RemotePath

if TYPE_CHECKING:
    from rlpanel.findings.engine.finding import Finding
    from rlpanel.schema import Sample


# -- asked table ---------------------------------------------------------------------------------------
# Asks a question by its name, and reduces its table to a digest that is equal for equal rows.


#: Significant digits of a number that count; sums in another order differ in the last ones.
DIGITS = 9
#: Most characters of an excerpt of a table.
_EXCERPT = 1_500


def askable() -> dict[str, Question[...]]:
    """Return the questions that a claim may ask: those of one run, but the one about claims."""
    from rlpanel.queries.catalogue import QUESTIONS

    return {
        name: each
        for name, each in QUESTIONS.items()
        if each.has_tool
        and not each.of_root
        and name != "report"
        and not any(parameter.type is RunData or parameter.is_runs for parameter in each.parameters)
    }


def asked_table(run: RunData, name: str, options: Mapping[str, Any]) -> Table:
    """Return the answer to a question, with the defaults and limits of a tool.

    Raises
    ------
    SettingError
        If a claim cannot ask it, or an option is not valid.
    RLPanelError
        As the question.
    """
    from rlpanel.queries.run_columns import similar

    known = askable()
    if name not in known:
        raise SettingError(f"a claim cannot ask {name[:80]!r}{similar(name, known)}")
    question = known[name]
    names = [parameter.name for parameter in question.parameters]
    for option in options:
        if option not in names:
            raise SettingError(
                f"the question {name!r} has no option {str(option)[:80]!r}{similar(str(option), names)}"
            )
    given = question.arguments(question.checked(options), attrgetter("tool_default"), _value)
    try:
        table = question(run, **given)
        _ = table.rows  # a column may be computed only now
    except RLPanelError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise SettingError(f"the options of {name} have no valid values") from error
    return table


def _value(parameter: Parameter, given: Any) -> Any:
    option = parameter.option
    if option.read is not None:
        return option.read(str(given)) if given not in ("", None) else None
    if option.most_rows is not None:
        is_count = isinstance(given, int) and not isinstance(given, bool) and given > 0
        return min(given, MAX_ROWS) if is_count else MAX_ROWS
    if not _fits(parameter.type, given):
        raise SettingError(f"{parameter.name} has no valid value")
    is_number = isinstance(given, int | float)
    if is_number and not (option.min is None or given >= option.min):
        raise SettingError(f"{parameter.name} is at least {option.min}")
    if is_number and not (option.max is None or given <= option.max):
        raise SettingError(f"{parameter.name} is at most {option.max}")
    return given


def _fits(kind: Any, given: Any) -> bool:
    """Return whether a value of JSON has the type of a parameter."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return any(_fits(part, given) for part in get_args(kind))
    if origin is Literal:
        return given in get_args(kind)
    if origin is Sequence or kind is Sequence:
        return isinstance(given, list) and all(isinstance(item, str) for item in given)
    if kind in (None, type(None)):
        return given is None
    if kind in (int, float):
        return not isinstance(given, bool) and isinstance(given, int | kind)
    return kind not in (bool, str) or isinstance(given, kind)


def digest(table: Table) -> str:
    """Return the digest of a table's columns and rows: 16 hexadecimal digits of SHA-256."""
    columns = [column.name for column in table.columns]
    rows = [[_rounded(row[name]) for name in columns] for row in table.rows]
    text = json.dumps([columns, rows], ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def excerpt(table: Table) -> str:
    """Return the first rows as JSON, one a line, as far as they fit."""
    lines: list[str] = []
    size = 0
    for row in table.rows:
        filled = {name: _rounded(value) for name, value in row.items() if value not in (None, "", [], {})}
        line = json.dumps(filled, ensure_ascii=False)
        size += len(line) + 1
        if size > _EXCERPT:
            lines.append(f"{line[: max(0, _EXCERPT - size + len(line))]}…" if not lines else "…")
            break
        lines.append(line)
    return "\n".join(lines)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


# -- claim source --------------------------------------------------------------------------------------
# Where claims get their values: questions, findings and samples of a run, or of others below its root.


#: Other runs that one evaluation reads, and samples that it keeps.
MAX_OTHER_RUNS, _SAMPLES = 8, 32
#: Characters that are shown before and after a quotation.
_AROUND = 60


class ClaimSource:
    """Values for the claims of one evaluation; those that several claims need are computed once.

    Parameters
    ----------
    run : RunData
        The run in whose folder the report is.
    root : path, optional
        Folder below which other runs are found; by default that up to which the run was opened.
    """

    def __init__(self, run: RunData, root: AnyPath | None = None) -> None:
        self.run, self.root = run, root or run.index.root
        self._runs: dict[tuple[str, str], RunData | ClaimBroken] = {}
        self._tables: dict[tuple[str, ...], Table] = {}
        self._findings: dict[tuple[str, str], list[Finding]] = {}
        self._samples: OrderedDict[tuple[str, str], Sample] = OrderedDict()

    def value(self, entry: ReportEntry) -> ClaimValue:
        """Return the value of a claim.

        Raises
        ------
        ClaimBroken
            If there is none.
        """
        makers = {
            "query": self._query,
            "number": self._number,
            "finding": self._finding,
            "quotation": self._quotation,
        }
        try:
            return makers[entry.kind](entry)
        except ClaimBroken:
            raise
        except RLPanelError as error:
            raise ClaimBroken(" ".join(str(error).split())) from error
        except Exception as error:  # one claim must not take the others along
            raise ClaimBroken(f"it cannot be evaluated: {describe_error(error)}") from error

    def name_of(self, entry: ReportEntry) -> str:
        """Return the name of a claim's run, as the board's address has it."""
        if entry.other_run:
            return entry.other_run
        path, root = self.run.path, self.root
        if isinstance(path, RemotePath) or isinstance(root, RemotePath):
            return self.run.name
        below = path.is_relative_to(root) and path != root
        return path.relative_to(root).as_posix() if below else self.run.name

    # -- runs --------------------------------------------------------------------------------------

    def _data(self, entry: ReportEntry) -> RunData:
        key = entry.other_run, entry.split
        if key not in self._runs:
            try:
                self._runs[key] = self._opened(entry)
            except (ClaimBroken, RLPanelError) as error:
                self._runs[key] = ClaimBroken(str(error))
        found = self._runs[key]
        if isinstance(found, ClaimBroken):
            raise found
        return found

    def _opened(self, entry: ReportEntry) -> RunData:
        if entry.split:
            whole = self._data(replace(entry, split=""))
            view = whole.view.in_split(entry.split)
            if view.snapshot.split != entry.split:
                raise ClaimBroken(f"the split {entry.split[:80]!r} is gone")
            return replace(whole, view=view)
        if not entry.other_run:
            return self.run
        if len({run for run, _ in self._runs if run}) >= MAX_OTHER_RUNS:
            raise ClaimBroken(f"a report is evaluated with at most {MAX_OTHER_RUNS} other runs")
        return _read_run(self.root, entry.other_run)

    # -- kinds -------------------------------------------------------------------------------------

    def _query(self, entry: ReportEntry) -> ClaimValue:
        table = self._asked(entry)
        shown = excerpt(table)
        value = {"digest": digest(table), "rows": table.size, "excerpt": shown}
        words = f"{table.size:,} rows, digest {value['digest']}"
        return ClaimValue(value, words, self._whole(entry), (("rows", shown),))

    def _number(self, entry: ReportEntry) -> ClaimValue:
        claim = entry.claim
        if not claim.get("metric"):
            return self._cell(entry)
        metric = str(claim["metric"])
        first, last = closed_span_of(str(claim.get("steps", "")))
        run = self._data(entry)
        table = self._steps(entry, metric, run)
        rows = [row for row in table.rows if first <= row["step"] <= last]
        values = [row[metric] for row in rows if row[metric] is not None]
        steps = str(first) if first == last else f"{first}..{last}"
        if not rows:
            raise ClaimBroken(f"step {steps} is gone: the run has no samples of it")
        if not values:
            raise ClaimBroken(f"{metric} is not a number at step {steps}")
        count = int(claim.get("count") or 0)
        if len(values) < count:
            raise ClaimBroken(f"{count - len(values):,} of {count:,} steps with a value are gone ({steps})")
        mean = float(np.mean(values))
        words = "" if first == last else f"Mean over {len(values):,} steps; lowest {min(values):.6g}, "
        words += "" if first == last else f"highest {max(values):.6g}."
        place = {**self._whole(entry), "step": rows[0]["step"], "follow": False}
        evidence = (("note", words),) if words else ()
        return ClaimValue({"expected": mean, "count": len(values)}, f"{mean:.6g}", place, evidence)

    def _cell(self, entry: ReportEntry) -> ClaimValue:
        table, column = self._asked(entry), str(entry.claim["column"])
        row = int(entry.claim.get("row") or 0)
        if not 0 <= row < table.size:
            raise ClaimBroken(f"row {row:,} is gone: the table has {table.size:,} rows")
        if column not in table.rows[row]:
            raise ClaimBroken(f"the table has no column {column[:80]!r}")
        value = table.rows[row][column]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ClaimBroken(f"{column} of row {row:,} is not a number")
        number = float(value)
        return ClaimValue({"expected": number}, f"{number:.6g}", self._whole(entry))

    def _finding(self, entry: ReportEntry) -> ClaimValue:
        from rlpanel.findings.check import cached_findings
        from rlpanel.findings.engine.rule import RULES
        from rlpanel.settings import FindingSettings

        rule, subject = str(entry.claim["rule"]), str(entry.claim.get("subject", ""))
        run = self._data(entry)
        key = entry.other_run, entry.split
        if key not in self._findings:
            settings, split = FindingSettings.from_environment(), run.snapshot.split
            self._findings[key] = cached_findings(run.index, settings, time.time(), split)
        found = [
            each
            for each in _with_symptoms(self._findings[key])
            if each.rule == rule and subject in ("", each.subject)
        ]
        if not found and rule not in RULES:
            raise ClaimBroken(f"there is no rule {rule[:80]!r}")
        if not found:
            return ClaimValue({"onset": None, "absent": True}, "not found", self._whole(entry))
        first = found[0]
        onset = "the whole run" if first.onset is None else f"from step {first.onset:,}"
        place = {**self._whole(entry), "finding": first.key}
        place |= {} if first.onset is None else {"step": first.onset, "follow": False}
        evidence = tuple(("note", text) for text in (first.sentence, *first.evidence))
        return ClaimValue({"onset": first.onset}, f"{first.severity}, {onset}", place, evidence)

    def _quotation(self, entry: ReportEntry) -> ClaimValue:
        claim = entry.claim
        sample, quote = self._sample(entry), str(claim["text"])
        text = _text_of(sample, str(claim["field"]))
        start = claim.get("start")
        at = start if isinstance(start, int) and text.startswith(quote, max(0, start)) else text.find(quote)
        if at < 0:
            raise ClaimBroken(f"the text is gone: {claim['field']} of the sample does not hold it")
        end = at + len(quote)
        before = ("…" if at > _AROUND else "") + text[max(0, at - _AROUND) : at]
        after = text[end : end + _AROUND] + ("…" if end + _AROUND < len(text) else "")
        place = {
            **self._whole(entry),
            "step": sample.step,
            "uid": sample.uid,
            "follow": False,
            "page": "samples",
            "tab": "conversation",
        }
        return ClaimValue(
            {"start": at}, f"characters {at:,} to {end:,}", place, (("quote", before + quote + after),)
        )

    # -- parts -------------------------------------------------------------------------------------

    def _whole(self, entry: ReportEntry) -> dict[str, Any]:
        return {"run": self.name_of(entry), "split": entry.split}

    def _asked(self, entry: ReportEntry) -> Table:
        options = dict(entry.claim.get("options") or {})
        return self._table(entry, str(entry.claim["question"]), options, self._data(entry))

    def _steps(self, entry: ReportEntry, metric: str, run: RunData) -> Table:
        from rlpanel.queries.steps import steps

        key = entry.other_run, entry.split, metric
        if key not in self._tables:
            self._tables[key] = steps(run, columns=[metric])
        return self._tables[key]

    def _table(self, entry: ReportEntry, question: str, options: dict[str, Any], run: RunData) -> Table:
        key = entry.other_run, entry.split, question, repr(sorted(options.items()))
        if key not in self._tables:
            self._tables[key] = asked_table(run, question, options)
        return self._tables[key]

    def _sample(self, entry: ReportEntry) -> Sample:
        key = f"{entry.other_run}\n{entry.split}", str(entry.claim["uid"])
        if key not in self._samples:
            try:
                self._samples[key] = self._data(entry).sample(key[1])
            except SampleNotFound as error:
                raise ClaimBroken(f"the sample {key[1][:200]} is gone") from error
            while len(self._samples) > _SAMPLES:
                self._samples.popitem(last=False)
        return self._samples[key]


def _read_run(root: AnyPath, name: str) -> RunData:
    """Read another run below the root; its name is never a path that leads out of it."""
    from rlpanel.queries.read_whole_run import read_once
    from rlpanel.settings import Reading
    from rlpanel.sources.discovery.directory import Directory

    directory = Directory(root)
    try:
        folder = directory.run_path(name)
        if not directory.is_run(folder):
            raise RunNotFound(name)
    except (RunNotFound, OSError) as error:
        raise ClaimBroken(f"the run {name[:80]!r} is gone: it was deleted or renamed") from error
    index = read_once(folder, root, Reading.from_environment())
    return RunData(index, index.view)


def _with_symptoms(findings: list[Finding]) -> Iterator[Finding]:
    for each in findings:
        yield each
        yield from _with_symptoms(list(each.symptoms))


def _text_of(sample: Sample, name: str) -> str:
    """Return a text of a sample: a field such as ``response``, or ``messages.3``.

    Raises
    ------
    SettingError
        If there is no such field.
    ClaimBroken
        If the sample does not have it.
    """
    kind, _, number = name.partition(".")
    if kind == "messages" and number.isdecimal() and len(number) < 10:
        if int(number) >= len(sample.messages):
            raise ClaimBroken(f"the sample has {len(sample.messages):,} messages; {name} is gone")
        found = sample.messages[int(number)].get("content")
        return found if isinstance(found, str) else ""
    if name not in TEXTS:
        raise SettingError(f"a text of a sample is {', '.join(TEXTS)}, or messages.0, not {name[:80]!r}")
    text = getattr(sample, name)
    if text is None:
        raise ClaimBroken(f"the sample has no {name}")
    return str(text)
