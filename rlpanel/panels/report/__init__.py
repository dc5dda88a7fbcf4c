"""A board in one file: a page that needs no server and no network, for a colleague or a chat message."""
