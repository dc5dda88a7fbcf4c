"""The static HTML that a page shows before its scripts are loaded."""
