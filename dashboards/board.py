"""Serves the board with Panel: ``panel serve dashboards/board.py --show [--args ROOT]``.

Define nothing else in this script: Bokeh clears a served script's names before a session's cleanup runs. All
objects that the cleanup needs are therefore in the package.
"""

from rlpanel.app.page.page import servable

servable()
