"""Lists and reads files, local and remote; also decompression, mounted file systems and inotify limits."""
