"""Widgets, style sheets and text helpers without knowledge of runs."""
