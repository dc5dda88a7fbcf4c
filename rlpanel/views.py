"""Single panels for a notebook cell or your own Panel page, such as ``rlpanel.views.curves(run)``.

Views of one run share a selection: a click on a step in the curves selects that step in the grid, a click in
the grid selects the sample in the token view. A view that is given its own step or filter keeps it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import panel as pn
from panel.viewable import Viewable, Viewer

from rlpanel.api.run import Run
from rlpanel.panels.curves.curves import Curves
from rlpanel.panels.findings.findings_list import FindingsList
from rlpanel.panels.groups.group_strip import GroupStrip
from rlpanel.panels.notebook.notebook_frame import AnswerTable, NotebookFrame, context_of, load_scripts
from rlpanel.panels.report.report import board_download
from rlpanel.panels.samples.sample_grid import SampleGrid
from rlpanel.panels.session.context import Context
from rlpanel.panels.step.reward_distribution import RewardDistribution, RewardGap
from rlpanel.panels.step.step_bar import StepSummary
from rlpanel.panels.tokens.token_view import TokenView, sample_scales
from rlpanel.panels.ui import theme
from rlpanel.schema import Sample

__all__ = ["answer", "curves", "distribution", "findings", "gap", "grid", "groups", "numbers", "tokens"]

#: Shared context of the views of a run, by the id of their document.
_contexts: weakref.WeakKeyDictionary[Run, weakref.WeakValueDictionary[int, Context]]
_contexts = weakref.WeakKeyDictionary()


def answer(run: Run, question: str = "steps", *, dark: bool | None = None, **options: Any) -> pn.Column:
    """Return the table of a question to the run: ``answer(run, "groups", sort="-reward_std")``.

    Parameters
    ----------
    run : Run
    question : str
        Name of a question, as for `Run.ask`.
    dark : bool, optional
        As for `curves`.
    **options
        Options of the question.
    """
    return _framed(lambda context: AnswerTable(context, question, **options), _shared_context(run), dark)


def curves(run: Run, *columns: str, dark: bool | None = None) -> pn.Column:
    """Return the curves: means over steps with bands. A click selects the step in the run's other views.

    Parameters
    ----------
    run : Run
        As returned by `rlpanel.open_run`. The view updates when the run reads new samples.
    *columns : str
        Sample columns, such as ``"reward"`` or ``"kl_k3_mean"``; by default the four of the board.
    dark : bool, optional
        Dark or light theme; by default that of the notebook or page around the view.
    """
    if columns:
        return _framed(Curves, context_of(run, curves=[*columns]), dark)
    return _framed(Curves, _shared_context(run), dark)


def distribution(run: Run, step: int | None = None, *, dark: bool | None = None) -> pn.Column:
    """Return the histogram of a step's rewards, beside that of the reference.

    Parameters
    ----------
    run : Run
    step : int, optional
        Step to show; by default the selected step of the run's other views.
    dark : bool, optional
        As for `curves`.
    """
    return _framed(RewardDistribution, _at(run, step), dark)


def gap(run: Run, step: int | None = None, *, dark: bool | None = None) -> pn.Column:
    """Return the sorted differences of reward and reference reward of a step; arguments as `distribution`."""
    return _framed(RewardGap, _at(run, step), dark)


def groups(run: Run, step: int | None = None, *, dark: bool | None = None) -> pn.Column:
    """Return the plot of a step's groups by reward; arguments as `distribution`."""
    return _framed(GroupStrip, _at(run, step), dark)


def numbers(run: Run, step: int | None = None, *, dark: bool | None = None) -> pn.Column:
    """Return a step's means with their change since the previous step; arguments as `distribution`."""
    return _framed(StepSummary, _at(run, step), dark)


def grid(
    run: Run,
    step: int | None = None,
    *,
    filter: str = "",
    sort: str = "",
    whole_run: bool = False,
    height: int = 460,
    dark: bool | None = None,
) -> pn.Column:
    """Return the table of samples of a step or of all steps that match a filter. A click selects a sample.

    Parameters
    ----------
    run : Run
    step : int, optional
        Step to show; by default the selected step of the run's other views.
    filter : str
        Filter expression, as on the board: ``"reward < 0 and kl_k3_mean > p99"``.
    sort : str
        Numeric column to sort by; with a leading ``-`` in descending order.
    whole_run : bool
        Show samples of all steps.
    height : int
        Height in pixels.
    dark : bool, optional
        As for `curves`.
    """
    selected: dict[str, Any] = {"filter": filter, "sort": sort, "scope": "run" if whole_run else "step"}
    has_own_selection = step is not None or filter or sort or whole_run
    context = context_of(run, step=step, **selected) if has_own_selection else _shared_context(run)
    return _framed(lambda context: SampleGrid(context, board_download), context, dark, height=height)


def tokens(
    what: Sample | Run, *, metric: str = "log_ratio", kl_estimator: str = "kl_k3", dark: bool | None = None
) -> pn.Column:
    """Return the token view: the response coloured by a token metric, with a heatmap of all token metrics.

    Parameters
    ----------
    what : Sample or Run
        A sample as returned by ``run.sample(uid)``; or a run, for the sample selected in its grid.
    metric : str
        Token metric that colours the text at first.
    kl_estimator : str
        KL estimator to show: ``kl_k3``, ``kl_k2``, ``log_ratio`` or ``kl_rllb``.
    dark : bool, optional
        As for `curves`.
    """
    context = _shared_context(what) if isinstance(what, Run) else Context(sample=what)
    load_scripts()
    context.selection.dark = theme.is_dark(dark)
    view = TokenView(metric=metric, kl_estimator=kl_estimator, dark=context.selection.dark)

    def show(*_: object) -> None:
        scales = sample_scales(context.snapshot, context.sample)
        view.param.update(sample=context.sample, token=-1, scales=scales)

    show()
    context.param.watch(show, "sample")
    context.selection.param.watch(lambda event: setattr(view, "dark", event.new), "dark")
    return NotebookFrame(view, context, dark)


def findings(run: Run, *, dark: bool | None = None) -> pn.Column:
    """Return the list of the run's findings with their evidence."""
    return _framed(FindingsList, _shared_context(run), dark)


# -- helpers -------------------------------------------------------------------------------------


def _shared_context(run: Run) -> Context:
    """Return the shared context of the run's views in this notebook or page."""
    by_document = _contexts.setdefault(run, weakref.WeakValueDictionary())
    key = id(pn.state.curdoc)
    context = by_document.get(key) or context_of(run)
    by_document[key] = context
    return context


def _at(run: Run, step: int | None) -> Context:
    return _shared_context(run) if step is None else context_of(run, step=step)


def _framed(
    view: Callable[[Context], Viewer | Viewable], context: Context, dark: bool | None, **options: Any
) -> pn.Column:
    load_scripts()
    context.selection.dark = theme.is_dark(dark)
    return NotebookFrame(view(context), context, dark, **options)
