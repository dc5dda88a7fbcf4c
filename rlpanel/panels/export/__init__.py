"""Export: menus and scripts that save a plot or a table as CSV or PNG."""
