"""Generator of synthetic runs, broken ones of known cause and healthy ones, for the benchmark of findings.

It does not use the rules of `rlpanel.findings`, so that the benchmark is independent of them.
"""
