"""How rollouts ended: judge calls and verifiers of a sample, failures and judges of a run."""
