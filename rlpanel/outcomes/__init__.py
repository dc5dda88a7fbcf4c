"""How rollouts ended: agreement of judges, and failures by class with their evidence."""
