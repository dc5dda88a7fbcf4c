"""Where one run leaves another: first step, what differs first, settings that differ, samples that show it."""
