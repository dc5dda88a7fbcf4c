"""The panels of the page: each room is one part of the screen, or a tool that several panels share."""
