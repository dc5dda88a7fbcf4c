"""Leading sentences of findings, as templates: the rules write them in English, the page in any language."""

from __future__ import annotations

SENTENCES: dict[str, tuple[str, ...]] = {
    "sentence": (
        "{when}, {share} {of}{place} {verb}{compared}{meanwhile}.",
        "{when}, more and more {many}{place} {verb}{compared}{meanwhile}.",
        "{when}, {count} advantages are beyond ±{limit}, the largest is {value}; {usual} is usual.",
        "{when}, {share} of the samples{place} are in groups where a higher reward has a lower "
        "advantage{compared}.",
        "{when}, {share} of the samples{place} are in steps where a higher reward has a lower "
        "advantage{compared}.",
        "{when}, {share} of the samples{place} are in groups whose mean advantage is far from 0{compared}.",
        "{when}, {share} of the samples{place} are in groups whose advantages do not have a "
        "standard deviation of 1{compared}.",
        "{when}, {share} of the answers that equal their ground truth get no {name} ({before} before).",
        "{when}, {share} of the answers that differ from their ground truth get the {name} of "
        "right ones ({before} before).",
        "{when}, {share} of the responses have no answer that can be compared with their ground "
        "truth ({before} before).",
        "From step {step} on, all {count} samples{place} have the lowest value of {name}, {value}; "
        "{share} of them had it before.",
        "The critic predicts returns worse than a constant in {span}: its explained variance is "
        "{value} on average{compared}.",
        "{when}, the value error is {value}; it was {before} before.",
        "{when}, the {measure}{place} is {value}; it was {before} before.",
        "{when}, {name} starts to vary{place}, with a mean of {value}; it was {before} in all "
        "samples before.",
        "{when}, {name} takes more and more from all samples: its mean is {value} ({before} "
        "before), its smallest value {lowest} ({earlier} before).",
        "{when}, the mix of {name} is another one, so that the {measure} is {value} ({before} "
        "before); with the mix of before it would be {same}.",
        "{when}, KL k3 to the reference{place} is {value} nats per token; it was {before} before{meanwhile}.",
        "{when}, KL k3 to the reference{place} fell to {value} nats per token; it was {before} "
        "before{meanwhile}.",
        "{when}, KL k3 to the reference is {value} nats per token on average, in many samples; the "
        "median of the steps before was {before}{meanwhile}.",
        "KL k3 to the reference is {value} nats per token in step {step}, {factor} times the "
        "median of the steps before ({before}).",
        "From step {step} on, KL to the reference is 0: the reference equals the policy.",
        "{when}, the mean log-ratio to the reference{place} is {value} nats per token; a KL "
        "divergence cannot be negative.",
        "{when}, the surprisal per token{place} is {value} nats; it was {before} before{alike}{meanwhile}.",
        "{when}, the entropy per token{place} is {value} nats; it was {before} before{alike}{meanwhile}.",
        "{when}, the mean response length{place} grows from {before} to {value} {unit}{meanwhile}.",
        "{when}, the mean response length{place} falls from {before} to {value} {unit}{meanwhile}.",
        "In step {step}, the mean of {name} is {value}, far above the median of the steps before ({before}).",
        "In step {step}, the mean of {name} is {value}, far below the median of the steps before ({before}).",
        "{when}, trainer and sampling engine{place} disagree on the probability of a token by a "
        "mean factor of {value}{compared}.",
        "{when}, the engine{place} holds its tokens less likely than the trainer by {value} nats "
        "per token ({before} before).",
        "{when}, the engine{place} holds its tokens more likely than the trainer by {value} nats "
        "per token ({before} before).",
        "{when}, {share} of the tokens{place} have probabilities in engine and trainer that differ "
        "by more than a factor of 2 ({before} before).",
        "{when}, the gap between engine and trainer{place} grows: the mean of exp|difference| − 1 "
        "is {value}; it was {before} before{doubling}.",
        "{when}, the importance ratios of tokens have a variance of {value} ({before} before): few "
        "tokens dominate the update.",
        "{when}, the importance ratio{place} is {value} on average; its expected value is 1.",
        "{when}, samples{place} come from a policy that is {value} versions old on average "
        "({before} before).",
        "In {span}, samples{place} were written by a policy that is up to {value} versions old; "
        "the bound is {limit}.",
        "{when}, the mean reward of the split {name}{place} is {value}; it was {before} before{rose}.",
        "{when}, the mean reward jumps from {before} to {value}.",
        "{when}, the mean reward of the split {name} jumps from {before} to {value}.",
        "{when}, the best reward of a group is {value} on average (pass@G); it was {before} "
        "before, while the mean reward{place} went from {earlier} to {later}.",
        "{when}, the mean of {name}{place} falls from {before} to {value} while the reward rises "
        "from {earlier} to {later}.",
        "The samples of the split {name} in {span} repeat those of the evaluation before.",
        "{when}, wrong answers are {share} longer than right ones of the same group ({before} before).",
        "Longer responses score higher in {span}.",
        "{count} samples{place} have an invalid field in {span}: {reason}.",
        "{when}, {share} of the samples have no reward ({before} before), while {rise} more have a "
        "reward of exactly 0.",
        "{when}, every sample has a reward ({before} had none before), while {rise} more have a reward of "
        "exactly 0.",
        "The array {name}{place} has NaN, infinity or null in {span}.",
        "Rank {rank} has no samples in {span}.",
        "Nothing was written for {value} s since step {step}; the median step takes {usual} s.",
        "Nothing was written for {value} min since step {step}; the median step takes {usual} s.",
        "From step {step} on, {share} of the responses contain the new phrase “{words}”.",
        "From step {step} on, {share} of the responses contain the new phrase “{words}”, which is rewarded.",
        "From step {step} on, {share} of the rollouts have a tool result with the new phrase “{words}”.",
        "From step {step} on, {share} of the rollouts have a tool result with the new phrase "
        "“{words}”, which is rewarded.",
        "From step {step} on, the prompts end as none did before: the template changed.",
        "From step {step} on, the prompts begin as none did before: the template changed.",
        "{span} have the same prompts in the same order as the steps from {step} on.",
        "Rank {rank} repeats its samples of the step before in {span}.",
        "The samples of {span} repeat those of the step before.",
        "Rank {rank} has {level} of {value} in {span}, {sign} the other ranks' {others}.{mixed}",
        "Rank {rank} repeats the samples of {whom} in {span}.",
        "{when}, {share} of the letters of responses{place} are in a script that the prompt does "
        "not use ({before} before): languages mix.",
        "{when}, {name} of the trainer is NaN or infinite.",
        "{when}, {name} of the trainer are NaN or infinite.",
        "{when}, the learning rate ({name}) is 0, so the policy does not change.",
        "{when}, {name} is 0, so the policy does not change.",
        "{when}, the learning rate ({name}) is {value}; it was {before} before.",
        "{when}, {name} is up to {value}; it was {before} before.",
        "{when}, a step has {value} samples{copies}; it had {before} before.",
        "{when}, {share} of the rewards of a step are the same value, mostly {value} ({before} before).",
        "From step {step} on, {share} of the groups have {name} = {text} ({before} before): the "
        "mix of {label} changed.",
        "From step {step} on, {share} of the groups have {name} = {text} ({before} before): the "
        "mix of {label} changes slowly, as in a curriculum.",
        "{when}, responses repeat themselves: {share} of their sequences of four words occurred "
        "before in the same response ({before} before).",
        "{when}, a response has {value} boxed answers on average ({before} before).",
        "{when}, {share} of the prompts hold the answer: their ground truth is a word of the "
        "prompt ({before} before).",
        "{when}, {share} of the samples have no ground truth ({before} before).",
        "{when}, {share} of the prompts that were seen before have another ground truth than then.",
        "{when}, {texts} are longer: {value} characters on average ({before} before).",
        "{when}, {texts} are shorter: {value} characters on average ({before} before).",
        "{when}, {share} of the tool results are empty ({before} before).",
        "{when}, {share} of the tool results are those of another call with other arguments "
        "({before} before).",
        "{when}, the ground truth is in a tool result of {share} of the rollouts ({before} before).",
        "{when}, {share} of the rollouts end without an answer: their last message is empty, a "
        "call or a result ({before} before).",
        "{when}, {share} of the rollouts make the same call three times or more ({before} before).",
        "{when}, the loss mask covers the first token of {share} of the tool results ({before} before).",
        "{when}, the loss mask leaves out the first token of {share} of the policy's turns "
        "({before} before).",
        "{when}, rollouts{place} have {value} turns ({before} before){meanwhile}.",
        "Rollouts in which {tool} fails get a reward that is {value} higher than that of others of "
        "the same group.",
        "Something changed at step {step}: {rows}.",
        "The rule {name} ({title}) failed, so its findings are missing: {reason}",
        "The metric {name} failed, so its values are missing: {reason}",
    ),
}
