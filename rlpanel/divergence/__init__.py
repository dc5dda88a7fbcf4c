"""Where one run leaves another: first step, what differs first, settings, and samples."""
