"""Files, local and remote: stat, ranges, decompression, mounts, inotify limits."""
