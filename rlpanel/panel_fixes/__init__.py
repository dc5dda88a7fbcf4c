"""Works around Panel, Bokeh, HoloViews and Tornado: each module replaces, overrides or reads a part.

The docstring of a module ends with three lines: the upstream thread, the versions that need the module, and
when it can be deleted. ``docs/upstream/`` has the texts of reports that are not filed yet.
"""
