"""Server of the Model Context Protocol: an agent asks the runs below a folder by tools."""
