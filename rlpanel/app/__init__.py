"""The page: who must be told, what is selected, and where each view stands."""
