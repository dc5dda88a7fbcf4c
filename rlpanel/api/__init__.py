"""The Python interface to one run: `open_run` and `Run`."""
