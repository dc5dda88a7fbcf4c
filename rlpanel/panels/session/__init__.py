"""State of one browser session: selection, event loop, turns of drawing, background tasks."""
