"""The question about the reports of a run, whose claims are evaluated when it is asked."""
