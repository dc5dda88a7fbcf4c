"""Status: connection, progress of the backlog, folders that are not shown, empty states."""
