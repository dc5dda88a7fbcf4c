"""Runs in a terminal: bars, curves and coloured tokens as text, and the screens of `rlpanel top`."""
