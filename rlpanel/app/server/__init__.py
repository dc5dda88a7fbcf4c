"""The server process: Bokeh server, `panel serve` service, health endpoint, garbage collection."""
