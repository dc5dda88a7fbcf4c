"""Export of cards: menu and scripts that save a plot as PNG or SVG, and its data as CSV."""
