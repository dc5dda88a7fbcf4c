"""One sample: its header, its actions and the tabs below the grid."""
