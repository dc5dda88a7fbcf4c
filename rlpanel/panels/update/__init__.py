"""The page *Update*: the tokens that carry a step's gradient, and other losses on the same samples."""
