"""Records your own training loop; values may be tensors, arrays or lists."""

import rlpanel

with rlpanel.RolloutWriter("runs/exp1", rank=0) as writer:
    writer.constants(algo="reinforce", beta=0.05)
    for step in range(1, 101):
        writer.write(step=step, prompt="2 + 2 =", response="4", reward=1.0, logprobs=[-0.02], group="0")
        writer.scalars(step, {"loss": 0.1})
