"""Arrays in, arrays out: no files, no panel."""
