"""Report: the board or one sample as a single HTML file that needs no server and no network."""
