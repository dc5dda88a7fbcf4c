"""Input fields and tabs as plain HTML, in the style of the board."""
