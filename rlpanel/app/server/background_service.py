"""Background service of the server: follows growing runs and sends alerts about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from rlpanel.app.alerts.alert_delivery import from_settings
from rlpanel.app.alerts.alert_watcher import AlertWatcher, LiveChecks
from rlpanel.app.live_runs import LiveRuns
from rlpanel.errors import SettingError
from rlpanel.runtime import Runtime
from rlpanel.settings import Alerts, Watching
from rlpanel.sources.files.file_access import AnyPath


class Service(NamedTuple):
    """The running background tasks; None for a task that does not run.

    Attributes
    ----------
    live : LiveRuns or None
        Follows the growing runs.
    alerts : AlertWatcher or None
        Sends their findings.
    """

    live: LiveRuns | None = None
    alerts: AlertWatcher | None = None


@contextmanager
def service(runtime: Runtime, root: AnyPath, board: str) -> Iterator[Service]:
    """Follow runs and send alerts, as configured, for the duration of the ``with`` block.

    Parameters
    ----------
    runtime : Runtime
    root : path
        The folder that holds the runs; it may be created later.
    board : str
        URL of the board, for links in alerts.

    Raises
    ------
    SettingError
        If a recipient is not valid, or alerts are configured together with ``--no-watch``.
    """
    settings = Alerts.from_environment()
    recipients = from_settings(settings)
    watch = Watching.from_environment().watch
    if recipients and watch is False:
        raise SettingError("alerts require that runs are followed: remove --no-watch, or the alert settings")
    if not (recipients or watch):
        yield Service()
        return
    live = LiveRuns(runtime.reader, root, runtime.limits.live_runs)
    alerts = AlertWatcher(live, recipients, settings, board) if recipients else None
    if alerts is None:
        live.listen(LiveChecks().check)
    live.start()
    try:
        yield Service(live, alerts)
    finally:
        live.stop()
        if alerts is not None:
            alerts.stop()
