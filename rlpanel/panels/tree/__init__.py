"""Tab of the sample with the tree of its rollout: sub-agents, branches, compactions, retries and turns."""
