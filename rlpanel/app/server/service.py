"""The server's background work: it follows the runs that grow and sends alerts about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from rlpanel.app.alerts.alert_watcher import AlertWatcher
from rlpanel.app.alerts.recipients import from_settings
from rlpanel.app.live_runs import LiveRuns
from rlpanel.errors import SettingError
from rlpanel.settings import Alerts, Watching
from rlpanel.sources.files.files import AnyPath
from rlpanel.store.index.reader import Reader


class Service(NamedTuple):
    """The background tasks that run; None for one that does not.

    Attributes
    ----------
    live : LiveRuns or None
        Follows the runs that grow.
    alerts : AlertWatcher or None
        Sends their findings.
    """

    live: LiveRuns | None = None
    alerts: AlertWatcher | None = None


@contextmanager
def service(reader: Reader, root: AnyPath, board: str) -> Iterator[Service]:
    """Inside of this, runs are followed and alerts are sent as the settings say.

    Parameters
    ----------
    reader : Reader
    root : path
        The folder that holds the runs; it may be missing for now.
    board : str
        The board's address, for links in alerts.

    Raises
    ------
    SettingError
        If a recipient of alerts cannot be one, or alerts are to be sent without following the runs.
    """
    settings = Alerts.from_environment()
    recipients = from_settings(settings)
    watch = Watching.from_environment().watch
    if recipients and watch is False:
        raise SettingError("alerts need the runs to be followed: leave out --no-watch, or the alerts")
    if not (recipients or watch):
        yield Service()
        return
    live = LiveRuns(reader, root)
    alerts = AlertWatcher(live, recipients, settings, board) if recipients else None
    live.start()
    try:
        yield Service(live, alerts)
    finally:
        live.stop()
        if alerts is not None:
            alerts.stop()
