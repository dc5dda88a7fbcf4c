"""Status: connection, backlog progress, excluded samples, empty states."""
