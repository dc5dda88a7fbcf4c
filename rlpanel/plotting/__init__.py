"""Plots of a run for notebooks and scripts, as HoloViews objects that compose, link and save."""
