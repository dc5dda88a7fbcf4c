"""`Run`: the Python interface to an opened run, with its tables, samples and statistics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rlpanel.analysis.difference import MAX_TEXTS
from rlpanel.api.run_frames import Stats, histogram_frame, quantile_frame, stats_of
from rlpanel.errors import SettingError
from rlpanel.queries.read_whole_run import refuse_unread, wait_until_read
from rlpanel.queries.run_data import RunData
from rlpanel.queries.step_ranges import Steps, in_run, is_step, span_of
from rlpanel.schema import Sample
from rlpanel.sources.files.file_access import AnyPath
from rlpanel.sql.sql_limits import SqlLimits
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.remarks import Remark
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    import pandas as pd

    from rlpanel.plotting.run_plots import RunPlots
    from rlpanel.queries.sample_sets import InRun
    from rlpanel.queries.table import Table
    from rlpanel.store.index.reader import Reader
    from rlpanel.store.snapshot.left_out import Omissions

#: Samples of this run, all samples of a run, or samples of another run.
Selected: TypeAlias = "InRun | Run | tuple[Run, InRun]"


class Run:
    """Samples and statistics of a run.

    Created by `open_run`. Tables are pandas data frames; each call reads the newest snapshot.
    """

    def __init__(self, index: RunIndex, service: Reader | None = None) -> None:
        self._index = index
        self._service = service
        self._split, self._counts_rows = "", False
        self._parent: Run | None = None  # of a run that is restricted to a split, or counts rows
        self._variants: dict[tuple[str, bool], Run] = {}

    @property
    def path(self) -> AnyPath:
        """The run's folder."""
        return self._index.path

    @property
    def index(self) -> RunIndex:
        """Index of the run, from which panels fetch samples."""
        return self._index

    def listen(self, listener: Callable[[RunIndex | None], None]) -> Callable[[], None]:
        """Subscribe to changes, see `Reader.listen`; without effect if the run is not followed."""
        service = self._reader
        return service.listen(listener) if service is not None else lambda: None

    @property
    def _reader(self) -> Reader | None:
        return (self._parent or self)._service

    @property
    def name(self) -> str:
        """Name of the run."""
        return self._index.name

    @property
    def view(self) -> RunView:
        """The newest snapshot with what is computed from it."""
        view = self._index.view.in_split(self._split)
        return view.by_rows if self._counts_rows else view

    @property
    def snapshot(self) -> Snapshot:
        """Newest immutable snapshot."""
        return self.view.snapshot

    @property
    def data(self) -> RunData:
        """The newest snapshot as questions take it."""
        return RunData(self._index, self.view)

    def ask(self, question: str, *args: Any, **options: Any) -> Table:
        """Return the answer to a question by its name, as a `Table` with ``frame()`` and ``document()``.

        `rlpanel.queries.catalogue` lists the questions: those of the command line, and registered ones.

        Parameters
        ----------
        question : str
            Such as ``"groups"``.
        *args, **options
            Options of the question; a list of columns may be a text with commas.

        Raises
        ------
        SettingError
            If there is no such question, or it has no such option; the message suggests a similar one.
        """
        from rlpanel.queries.catalogue import question_of

        asked = question_of(question)
        return asked(self.data, *args, **asked.checked(options))

    def what_if(
        self, *algorithms: str, reward_weights: Mapping[str, float] | str = "", **options: Any
    ) -> Table:
        """Return what other losses make of a step's samples: ``run.what_if("dr_grpo", epsilon=0.1).frame()``.

        Parameters
        ----------
        *algorithms : str
            Such as ``"dr_grpo"``; all by default. ``"own"`` is the run's with other constants.
        reward_weights : mapping of str to float, or str
            Weights of parts of the reward; others keep theirs.
        **options
            As `rlpanel.queries.learning.update.what_if`, such as ``step``, ``epsilon`` and ``beta``.

        Raises
        ------
        SettingError
            If there is no such step or algorithm, or a constant is out of range.
        """
        if not isinstance(reward_weights, str):
            reward_weights = ",".join(f"{name}={weight!r}" for name, weight in reward_weights.items())
        return self.ask("what_if", list(algorithms), reward_weights=reward_weights, **options)

    def gate(self, *against: Run, **options: Any) -> Table:
        """Return whether the run is worse than the spread of its baselines allows, number by number.

        ``run.gate(a, b, c).about["state"]`` is ``worse``, ``passed`` or ``cannot tell``.

        Parameters
        ----------
        *against : Run
            The baselines: runs with the same settings and other seeds.
        **options
            As `rlpanel.queries.gate.gate`: ``on``, ``windows`` and ``align``.

        Raises
        ------
        SettingError
            If no baseline is given, or no run logs a number of ``on``.
        """
        return self.ask("gate", [each.data for each in against], **options)

    def diverge(self, against: Run, **options: Any) -> Table:
        """Return the numbers in which another run leaves this one, the earliest first.

        ``run.diverge(other).about["sentence"]`` names the first step and what differs first.

        Parameters
        ----------
        against : Run
            The other run.
        **options
            As `rlpanel.queries.two_runs.diverge`, such as ``align``.

        Raises
        ------
        SettingError
            If a run does not log what the axis needs.
        """
        return self.ask("diverge", against.data, **options)

    @property
    def splits(self) -> dict[str, int]:
        """Number of counted samples per split, training first."""
        return self.snapshot.splits

    def split(self, name: str) -> Run:
        """Return the run restricted to the samples of a split: ``run.split("eval").steps``.

        It is closed together with this run.

        Raises
        ------
        SettingError
            If no sample belongs to this split.
        """
        if name not in self.splits:
            raise SettingError(
                f"no split {name!r} in {self.name}; available: {', '.join(self.splits) or 'none'}"
            )
        return self._variant(name, counts_rows=self._counts_rows)

    @property
    def by_rows(self) -> Run:
        """The run with statistics that count the reward of each row: ``run.by_rows.steps``.

        By default an episode counts once, by its last row; see docs/metrics.md. Only rewards and columns that
        rlpanel does not know differ, and `findings` always go by episodes. It is closed together with this
        run.
        """
        return self._variant(self._split, counts_rows=True)

    def _variant(self, split: str, *, counts_rows: bool) -> Run:
        parent, key = self._parent or self, (split, counts_rows)
        if key not in parent._variants:
            run = parent._variants[key] = Run(self._index)
            run._split, run._counts_rows, run._parent = split, counts_rows, parent
        return parent._variants[key]

    @property
    def steps(self) -> pd.DataFrame:
        """One row per step: ``step``, ``samples``, ``reward_mean``, ``reward_std``, ``kl_k3_mean``, ...

        With ``episodes``, the number of samples of which those of one episode count once, if any has several.
        The trainer's own scalars, such as ``loss``, are columns too, unless a column has their name.
        """
        from rlpanel.queries.steps import steps

        return steps(self.data, every=True).without("complete").frame()

    def quantiles(self, column: str, q: Sequence[float] = (0.25, 0.5, 0.75)) -> pd.DataFrame:
        """Return exact quantiles of a column over the counted samples: one row per step.

        Raises
        ------
        SettingError
            If the column was never logged; the message names the columns that were.
        """
        return quantile_frame(self.view, column, q)

    def histogram(self, column: str, bins: int = 64) -> pd.DataFrame:
        """Count the samples per interval of a column's values: one row per step, one column per interval.

        Parameters
        ----------
        column : str
        bins : int
            Maximum number of intervals; their width is a power of two, and they are closed on the left.

        Raises
        ------
        SettingError
            If the column was never logged; the message names the columns that were.
        """
        return histogram_frame(self.view, column, bins)

    def explain(
        self,
        metric: str,
        step: int | tuple[int, int],
        since: int | tuple[int, int] | None = None,
        *,
        tokens: bool = False,
    ) -> pd.DataFrame:
        """Return which parts, samples, groups, ranks and categories the change of a metric comes from.

        One row per element, with ``kind`` (``part`` of the reward, ``samples``: the few that carry most,
        ``sample``, ``group``, ``rank``, a label's name, ``token``, ``position``), ``name``, ``share`` of the
        change, ``contribution`` in the metric's unit, ``count`` and ``count_before`` of samples or tokens in
        the two windows, ``value`` and ``before`` (the metric over them), ``without`` (the value without it),
        ``filter`` and ``uids``. The shares of all elements of a kind add up to 1, but at most 50 are listed.
        ``attrs`` holds ``value``, ``before``, ``error`` and ``sentences``: what stands out, whether prompts
        that were seen before changed too, and what else differs. See `rlpanel.analysis.step_change` for the
        formulas.

        Parameters
        ----------
        metric : str
            A number column, or a step metric that is a mean over samples or tokens.
        step : int or (int, int)
            A step, or the first and the last one.
        since : int or (int, int), optional
            The steps to compare with; by default up to five right before.
        tokens : bool
            Also read the lines of these steps, for the shares of tokens and positions.

        Raises
        ------
        SettingError
            If the run does not have the steps or the metric, or the metric has no shares.
        """
        from rlpanel.queries.explain import explain

        return explain(self.data, metric, step, since, tokens=tokens).frame()

    def contrast(
        self,
        a: Selected,
        b: Selected | None = None,
        *,
        exclude: Collection[str] = (),
        texts: int = MAX_TEXTS,
    ) -> pd.DataFrame:
        """Return what is different between two sets of samples, the largest effect first.

        One row per difference, with ``kind`` (``number``, ``label``, ``missing``, ``script``, ``word``,
        ``words``, ``opening``), ``name``, ``a`` and ``b`` (means, or shares of the samples), ``effect``
        (a − b in standard deviations), ``error`` (its standard error, clustered by group), ``z``,
        ``count_a`` and ``count_b`` (samples with the feature), ``size_a`` and ``size_b`` (samples that were
        compared), ``filter``, ``uids_a`` and ``uids_b``. `rlpanel.analysis.selection_contrast` tells what is
        named.

        Parameters
        ----------
        a, b : int, slice, (int, int), str, Run, or (Run, one of these)
            A step, steps (both ends included), a filter expression, all samples of a run, or a selection of
            another run. By default ``b`` is the rest of the run. Samples of both count as ``a``.
        exclude : collection of str
            Columns not to compare. Those that a filter uses are left out anyway.
        texts : int
            Maximum number of responses to read of each set.

        Raises
        ------
        SettingError
            If a set is empty or no selection.
        FilterError
            If a filter is not valid.
        """
        from rlpanel.queries.explain import contrast

        return contrast(self.data, _data_of(a), _data_of(b), exclude=exclude, texts=texts).frame()

    def clusters(self, first: Steps | None = None, last: int | None = None) -> pd.DataFrame:
        """Return the clusters of nearly equal responses over a range of steps, the largest first.

        One row per cluster, with ``size``, ``first`` and ``last`` (steps), ``prompts`` and ``texts`` (numbers
        of different ones), ``reward`` (mean), ``example`` (beginning of the most frequent response), ``uid``
        (a sample with it) and ``uids``.

        Parameters
        ----------
        first : int, (int, int), slice, range or str, optional
            The first step, up to ``last``; or a range of steps, as `samples` takes it. By default all steps.
        last : int, optional
            Included; by default the newest.

        Raises
        ------
        SettingError
            If ``first`` names no steps, or names a range and ``last`` is given as well.
        """
        from rlpanel.queries.explain import clusters

        if first is None or is_step(first):
            return clusters(self.data, first, last).frame()
        if last is not None:
            raise SettingError(f"{first!r} is a range of steps: leave out last={last!r}")
        return clusters(self.data, *span_of(first)).frame()

    @cached_property
    def plot(self) -> RunPlots:
        """Plots of the run as HoloViews objects: ``run.plot.curve("reward")``; see `RunPlots`."""
        from rlpanel.plotting.run_plots import RunPlots  # HoloViews takes long to import

        return RunPlots(lambda: self.data)

    def groups(self, step: Steps | None = None) -> pd.DataFrame:
        """Return one row per group and step: ``step``, ``group``, ``samples``, ``reward_mean``, ...

        Also ``reward_std`` (ddof 1), ``reward_min``, ``reward_max``, ``pass_rate``, ``diversity`` (share of
        distinct responses), ``prompt_chars``, ``response_tokens_mean``, ``signal`` (``signal``, ``all low``
        or ``all high``), ``filter`` and ``uid`` of the first sample. Groups of one sample are left out.

        Parameters
        ----------
        step : int, (int, int), slice, range or str, optional
            A step or several, as `samples` takes them; all by default.

        Raises
        ------
        SettingError
            If the run has none of the steps.
        """
        from rlpanel.queries.groups import groups

        span = None if step is None else in_run(self.view, step)
        return groups(self.data, span, all_steps=True).frame()

    def tokens(
        self,
        uid: str | None = None,
        *,
        steps: Steps | None = None,
        metric: str = "",
        least: int = 3,
        most: int = 50,
    ) -> pd.DataFrame:
        """Return the tokens of a sample, or a ranking of the tokens of some steps.

        With ``uid`` one row per token: ``position``, ``token``, ``token_id``, ``loss_mask`` and all token
        metrics. With ``steps`` one row per token text: ``token``, ``count``, ``mean``, ``max``, and ``uid``
        and ``position`` of the maximum, the highest mean first. Columns that were not logged are absent.

        Parameters
        ----------
        uid : str, optional
        steps : int, (int, int), slice, range or str, optional
            A step or several, as `samples` takes them.
        metric : str
            What to rank by: ``kl_k3``, ``kl_k2``, ``log_ratio``, ``kl_rllb``, ``surprisal`` or
            ``value_error``; by default the first that the samples have. ``attrs`` names it.
        least, most : int
            Least count of a ranked token, and maximum number of rows.

        Raises
        ------
        SettingError
            If neither or both of uid and steps are given, or the samples do not have the metric.
        SampleNotFound, SourceChanged
            As `sample`.
        """
        from rlpanel.queries.sample import sample_tokens
        from rlpanel.queries.tokens import tokens

        if uid is not None and steps is None:
            return sample_tokens(self.data, uid).frame()
        if uid is not None or steps is None:
            raise SettingError("give a uid for the tokens of a sample, or steps for a ranking")
        found = tokens(
            self.data,
            in_run(self.view, steps),
            metric=metric,
            least=least,
            limit=most,
            most_samples=self.snapshot.rows,
        )
        if metric and found.about["metric"] is None:
            raise SettingError(f"no token metric {metric!r} to rank by; no tokens are logged")
        return found.frame()

    def lint(self, per_step: int | None = None) -> pd.DataFrame:
        """Return what each lint rule proves, one row each: failed first, then passed, then not checkable.

        Parameters
        ----------
        per_step : int, optional
            Samples of each step that are read; all by default. Each line is read once.

        Returns
        -------
        pandas.DataFrame
            Columns rule, state, checked, failed, share, first_step, title, log, remark, examples.
        """
        from rlpanel.queries.findings import lint

        return lint(self.data, per_step).frame()

    @property
    def findings(self) -> pd.DataFrame:
        """Return the findings of the complete steps, one row each: alarms first, then the newest.

        Columns: ``rule``, ``severity`` (``alarm``, ``warning`` or ``info``), ``onset`` and ``last`` (steps),
        ``ongoing``, ``rank`` and ``category`` (if it holds in one place only), ``sentence``, ``metric`` (a
        column of `steps`), ``filter`` (for its samples), ``uid`` (of an example), and ``finding``: the object
        with ``evidence``, ``advice`` and ``symptoms``.

        The thresholds are environment variables, see `rlpanel.settings.FindingSettings`.
        """
        from rlpanel.queries.findings import findings

        return findings(self.data).frame(typed=True)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Notes on what the numbers depend on and the log lacks, such as evaluations mixed into steps."""
        return self.snapshot.remarks

    @property
    def notes(self) -> pd.DataFrame:
        """One row per sample with a tag or note by a viewer: ``uid``, ``tag``, ``note``, ``time``."""
        from rlpanel.queries.reports.claim_report import notes

        return notes(self.data, newest_first=False).frame()

    @property
    def scalars(self) -> pd.DataFrame:
        """The trainer's own log, one row per step: ``step``, ``loss``, ``learning_rate``, ...

        Columns have the trainer's names. They come from files in the run's folder (``scalars.jsonl``,
        ``metrics.jsonl``, ``trainer_state.json``, TensorBoard events). NaN if a step has no value.
        """
        return self.snapshot.scalars.frame()

    def samples(
        self,
        step: Steps | None = None,
        *,
        filter: str = "",
        search: str = "",
        sort: str = "",
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        text: bool = False,
        older: bool = False,
    ) -> pd.DataFrame:
        """Return one row per sample: ``uid``, ``step``, ``rank``, ``group``, ``reward``, ``kl_k3_mean``, ...

        Parameters
        ----------
        step : int, (int, int), slice, range or str, optional
            A step, or several: ``(10, 20)``, ``slice(10, 20)`` and ``"10..20"`` include both ends,
            ``range(10, 20)`` excludes its end. All by default.
        filter, search : str
            Only samples that pass, as on the board: ``filter="reward < 0"``; see docs/find.md.
        sort : str
            Number column, with ``-`` in front for descending order; by default the order of arrival.
        columns : sequence of str, optional
            Only these columns, beside ``uid``, ``step`` and ``rank``; all by default.
        limit : int, optional
            Maximum number of samples; all by default.
        text : bool
            Add the texts (``prompt``, ``response``, ...), which are read from the files, and how repetitive
            the responses are (``zlib_ratio``, ``distinct_4``).
        older : bool
            Add the samples of older attempts, which a restart of the job replaced, and the column ``older``
            that marks them.

        Raises
        ------
        FilterError
            If filter, search or sort order are not valid.
        SettingError
            If the run does not have a column, or has none of the steps.
        """
        from rlpanel.queries.samples import samples

        if isinstance(columns, str):
            columns = (columns,)

        table = samples(
            self.data,
            filter=filter,
            search=search,
            step=None if step is None else in_run(self.view, step),
            sort=sort,
            columns=columns,
            limit=limit,
            text=text,
            older=older,
            every=True,
        )
        return table.without("tag", "note", "cut").frame()

    def sql(
        self,
        query: str,
        *,
        rows: int = SqlLimits.rows,
        seconds: float = SqlLimits.seconds,
        size: int = SqlLimits.size,
        runs: Sequence[Run] = (),
    ) -> pd.DataFrame:
        """Return the rows of one SQL ``SELECT`` statement over the run, or over several runs.

        Its tables are the questions that need no option, such as ``samples``, ``steps`` and ``groups``;
        ``tokens(FIRST, LAST)`` has the tokens of a range of steps. A value that was not logged is NULL. The
        query cannot read files or settings, nor change anything. Another process runs it, with limits of
        time and memory. Needs the extra ``sql``; see docs/sql.md.

        Parameters
        ----------
        query : str
        rows : int
            Most rows of the result; a larger result is an error.
        seconds : float
            Time after which the query is cancelled.
        size : int
            Most bytes of the result; a larger result is an error.
        runs : sequence of Run
            Further runs: each table has the rows of all, and a column ``run``.

        Raises
        ------
        QueryError
            If the query is not valid, not allowed or exceeds a limit, or duckdb is not installed.
        """
        from rlpanel.queries.sql import sql_frame

        limits = SqlLimits(rows=rows, seconds=seconds, size=size)
        return sql_frame(self.data, query, limits, [run.data for run in runs])

    def arrow(self, columns: Collection[str] | None = None) -> Any:
        """Return the samples as a ``pyarrow.Table``, one row per sample, for polars and other tools.

        Numbers are not copied unless the run has samples that do not count. A value that was not logged is
        null. Needs the extra ``parquet``.

        Parameters
        ----------
        columns : collection of str, optional
            By default all columns of `samples`.

        Raises
        ------
        QueryError
            If pyarrow is not installed or the run has no such column.
        """
        from rlpanel.sql.sample_relation import samples_arrow

        return samples_arrow(self.view, columns)

    def dask(self, table: Literal["samples", "tokens"] = "samples") -> Any:
        """Return the samples or their tokens as a dask data frame, one partition for each range of steps.

        Numbers are those of `samples`. The workers of a cluster read the lines of the tokens that they need,
        so they must see the run's files. Needs the extras ``dask`` and ``parquet``; see docs/scale.md.

        Parameters
        ----------
        table : str
            ``samples`` or ``tokens``.

        Raises
        ------
        QueryError
            If a package is not installed, or the run has no samples.
        """
        from rlpanel.dataset.dataset_parts import dask_frame, parts_of

        return dask_frame(parts_of(self._index, self.view), table)

    def sample(self, uid: str) -> Sample:
        """Return one sample with all its fields.

        Raises
        ------
        SampleNotFound
            If no sample in the log has this uid.
        SourceChanged
            If its line in the file has changed or was deleted.
        """
        return self.data.sample(uid)

    @property
    def errors(self) -> pd.DataFrame:
        """One row per bad line: ``file``, ``line`` (from 1), ``offset`` (bytes), ``reason``."""
        return self.ask("errors").frame()

    @property
    def unread(self) -> pd.DataFrame:
        """One row per file or folder that cannot be read now: ``file``, ``reason``; empty if all can."""
        import pandas as pd

        unread = self.snapshot.unread
        return pd.DataFrame({name: [getattr(item, name) for item in unread] for name in ("file", "reason")})

    @property
    def left_out(self) -> Omissions:
        """Counts of what the run's or this split's numbers leave out: ``run.left_out.sentence`` says it."""
        from rlpanel.store.snapshot.left_out import left_out

        return left_out(self.snapshot, all_splits=not self._split)

    def stats(self) -> Stats:
        """Return the numbers of rows, episodes, bad lines, steps, ranks, files and bytes so far."""
        return stats_of(self.snapshot, split=bool(self._split))

    def wait(self, timeout: float | None = None, *, progress: bool = False) -> bool:
        """Wait until all lines that are on disk now are indexed; returns True.

        Lines that are appended after the call are not waited for, nor is an incomplete last line. A bucket is
        listed again.

        Parameters
        ----------
        timeout : float, optional
            Seconds; no limit by default.
        progress : bool
            Show the progress on stderr if it is a terminal.

        Raises
        ------
        NotYetRead
            If the timeout expires first, or if the run is not followed, because it was closed or opened with
            ``follow=False``, and its files have grown; the message names the files and the number of bytes.
        RLPanelError
            If the reader failed or was stopped.
        """
        service = self._reader
        if service is not None:
            wait_until_read(self._index, service, timeout, progress=progress)
        else:
            refuse_unread(self._index)
        return True

    def close(self) -> None:
        """Stop following the run; its tables keep their last state."""
        service, self._service = self._service, None
        if service is not None:
            service.close(self._index)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        from rlpanel.plotting.run_html import run_html  # imports Bokeh

        return run_html(self.view, self.findings)

    def __repr__(self) -> str:
        stats = self.stats()
        bad = f", {stats.bad_lines:,} bad lines" if stats.bad_lines else ""
        return f"<Run {self.name!r}: {stats.rows:,} samples, {stats.steps:,} steps{bad}>"


def _data_of(selected: Any) -> Any:
    """Return a selection with what questions take instead of a run."""
    if isinstance(selected, Run):
        return selected.data
    return (selected[0].data, selected[1]) if _is_of_other_run(selected) else selected


def _is_of_other_run(selected: Any) -> bool:
    return isinstance(selected, tuple) and len(selected) == 2 and isinstance(selected[0], Run)
