"""Records: JSON lines parsed into fields and columns."""
