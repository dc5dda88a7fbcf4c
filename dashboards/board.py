"""The board as an app: ``panel serve dashboards/board.py --show [--args ROOT]``.

Nothing but this may stand here: what a served script defines, Bokeh clears before a session's cleanup
runs, so everything with a life of its own lives in the package.
"""

from rlpanel.app.board.page import servable

servable()
