"""State of one browser session: selection, event loop, redraw queue, background tasks."""
