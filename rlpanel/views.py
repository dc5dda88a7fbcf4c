"""The views one by one, for a notebook cell or a page of your own: ``rlpanel.views.curves(run)``.

Views of one run share a selection: a click on a step in the curves shows that step in the grid, a click in
the grid shows that sample's tokens. A view that is given its own step or filter keeps it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import panel as pn
from panel.viewable import Viewer

from rlpanel.panels.curves.curves import Curves
from rlpanel.panels.findings.findings_list import FindingsList
from rlpanel.panels.groups.group_strip import GroupStrip
from rlpanel.panels.notebook.notebook_frame import NotebookFrame, load
from rlpanel.panels.notebook.run_binding import context_of
from rlpanel.panels.report.board_download import board_download
from rlpanel.panels.samples.sample_grid import SampleGrid
from rlpanel.panels.session.context import Context
from rlpanel.panels.step.reward_distribution import RewardDistribution, RewardGap
from rlpanel.panels.step.step_summary import StepSummary
from rlpanel.panels.tokens.token_view import TokenView
from rlpanel.schema import Sample
from rlpanel.store.run import Run

__all__ = ["curves", "distribution", "findings", "gap", "grid", "groups", "numbers", "tokens"]

#: The context that views of a run share, by the page or notebook they stand in.
_shared: weakref.WeakKeyDictionary[Run, weakref.WeakValueDictionary[int, Context]]
_shared = weakref.WeakKeyDictionary()


def curves(run: Run, *columns: str, dark: bool | None = None) -> pn.Column:
    """Means over the steps with bands; a click selects the step in the run's other views.

    Parameters
    ----------
    run : Run
        As `rlpanel.open_run` gives it; what it reads later comes by itself.
    *columns : str
        Sample columns, such as ``"reward"`` or ``"kl_k3_mean"``; the usual four by default.
    dark : bool, optional
        Dark or light; as ``pn.config.theme`` says by default.
    """
    if columns:
        return _framed(Curves, context_of(run, curves=[*columns]), dark)
    return _framed(Curves, _together(run), dark)


def distribution(run: Run, step: int | None = None, *, dark: bool | None = None) -> pn.Column:
    """How the rewards of a step spread, beside the reference's.

    Parameters
    ----------
    run : Run
    step : int, optional
        The step that the run's other views show by default.
    dark : bool, optional
        As `curves` takes it.
    """
    return _framed(RewardDistribution, _at(run, step), dark)


def gap(run: Run, step: int | None = None, *, dark: bool | None = None) -> pn.Column:
    """Reward minus the reference's for each sample of a step, sorted; as `distribution`."""
    return _framed(RewardGap, _at(run, step), dark)


def groups(run: Run, step: int | None = None, *, dark: bool | None = None) -> pn.Column:
    """The groups of a step, each from its worst sample to its best; as `distribution`."""
    return _framed(GroupStrip, _at(run, step), dark)


def numbers(run: Run, step: int | None = None, *, dark: bool | None = None) -> pn.Column:
    """A step's means with their change since the step before; as `distribution`."""
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
    """The samples of a step, or those of all steps, that pass a filter; a click selects one.

    Parameters
    ----------
    run : Run
    step : int, optional
        The step that the run's other views show by default.
    filter : str
        As on the board: ``"reward < 0 and kl_k3_mean > p99"``.
    sort : str
        A number column, with ``-`` before it from the largest down.
    whole_run : bool
        Ask all steps.
    height : int
        Pixels.
    dark : bool, optional
        As `curves` takes it.
    """
    asked: dict[str, Any] = {"filter": filter, "sort": sort, "scope": "run" if whole_run else "step"}
    alone = step is not None or filter or sort or whole_run
    context = context_of(run, step=step, **asked) if alone else _together(run)
    return _framed(lambda shown: SampleGrid(shown, board_download), context, dark, height=height)


def tokens(
    what: Sample | Run, *, metric: str = "log_ratio", kl_estimator: str = "kl_k3", dark: bool | None = None
) -> pn.Column:
    """A response token by token, coloured by a metric, over a strip of all its metrics.

    Parameters
    ----------
    what : Sample or Run
        A sample, as ``run.sample(uid)`` gives it; for a run the sample that its grid shows.
    metric : str
        The token metric to begin with.
    kl_estimator : str
        The estimate of KL that is shown: ``kl_k3``, ``kl_k2``, ``log_ratio`` or ``kl_rllb``.
    dark : bool, optional
        As `curves` takes it.
    """
    context = _together(what) if isinstance(what, Run) else Context(sample=what)
    load()
    dark = _dark(dark)
    view = TokenView(sample=context.sample, metric=metric, kl_estimator=kl_estimator, dark=dark)
    context.param.watch(lambda event: view.param.update(sample=event.new, token=-1), "sample")
    return NotebookFrame(view, context, dark)


def findings(run: Run, *, dark: bool | None = None) -> pn.Column:
    """What the rules find in the run, with the evidence."""
    return _framed(FindingsList, _together(run), dark)


# -- what all share ------------------------------------------------------------------------------


def _together(run: Run) -> Context:
    """The context of the run's views in this notebook or page."""
    here = _shared.setdefault(run, weakref.WeakValueDictionary())
    key = id(pn.state.curdoc)
    context = here.get(key) or context_of(run)
    here[key] = context
    return context


def _at(run: Run, step: int | None) -> Context:
    return _together(run) if step is None else context_of(run, step=step)


def _framed(
    view: Callable[[Context], Viewer], context: Context, dark: bool | None, **options: Any
) -> pn.Column:
    load()
    context.selection.dark = _dark(dark)
    return NotebookFrame(view(context), context, context.selection.dark, **options)


def _dark(wish: bool | None) -> bool:
    return pn.config.theme == "dark" if wish is None else wish
