"""The application: serves the board, sends alerts, exports runs and writes the demo.

Imports every other part of the package; only the command line imports it.
"""
