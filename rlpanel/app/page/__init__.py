"""The page: its HTML document, its layout, and the steps that build it."""
