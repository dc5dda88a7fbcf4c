"""Widgets, style sheets and text helpers that know nothing about runs."""
