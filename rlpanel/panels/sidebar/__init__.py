"""The sidebar: runs, splits, overlays, display options and training constants."""
