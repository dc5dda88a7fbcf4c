"""The timeline of a step's rollouts: what each of them did, for how long, and with which policy version."""
