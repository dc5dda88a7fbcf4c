"""Evidence and advice of findings, as templates, beside those that have no values."""

from __future__ import annotations

EVIDENCE: dict[str, tuple[str, ...]] = {
    "evidence": (
        "{span}: {share} on average; step {step} has the most, {count} of {all}.",
        "By {name}, {noun}: {listed}.",
        "By {name}: {listed}.",
        "Reward of {noun} minus reward of the others: {gap} ± {error} (2 s.e.) within the {count} "
        "groups that have both, {pooled} pooled.",
        "Reward of samples with it minus reward of the others{within}: {gap} ± {error} (2 s.e.).",
        "It failed in {name}, line {step}.",
        "It was found up to step {step}; the steps after that do not show it clearly.",
        "It was raised before, and had ended in step {step}.",
        "Again since step {first}: it was raised before, and had ended in step {step}.",
        "Responses have {value} characters on average ({before} before): a token has other text, "
        "{new} characters instead of {old}. The tokenizer may be another one.",
        "It jumps about as far every {count} logged steps, as a schedule does.",
        "It falls about as far every {count} logged steps, as a schedule does.",
        "The mix of {name} is another one, and makes most of the difference.",
        "Raised in step {first} and found up to step {step}; the run as it was in step {last} does "
        "not show it.",
        "Most frequent in {span}, {count} of {all} responses: “{words}”.",
        "Most frequent in {span}, {count} of {all} responses, to {prompts} prompts: “{words}”.",
        "All samples fail (reward below a pass) in {share} of these groups, and all pass in {passed}.",
        "Correlation of reward and advantage: {value}; it should be positive.",
        "Correlation of reward and advantage within groups: {value}; it should be positive.",
        "Affected samples: mean {value}, standard deviation within groups {spread}.",
        "The rewards of these samples differ by {value} from their group's mean (median).",
        "Step {step} has the largest.",
        "They are longer than right answers with the reward: {value} characters on average, not {others}.",
        "They are shorter than right answers with the reward: {value} characters on average, not {others}.",
        "Answers are read by the rule {name} in each step.",
        "Lowest: {value} in step {step}; 1 is perfect.",
        "Highest: {value} in step {step}. The variance of the returns does not explain it.",
        "Highest in step {step}: {value}.",
        "Difference: {value}, {errors} of the two windows{deviations}.",
        "Difference: {errors}, clustered by group, in the clearest {count} steps.",
        "The same holds for {name}: a multiple of the reward.",
        "It takes {value} standard deviations of the reward of a step's samples.",
        "A factor of {factor}; the difference is {errors} of the two windows.",
        "A factor of {factor}; {errors}.",
        "The distance is {errors}.",
        "Also in {span}.",
        "The fall is {errors} of the two windows.",
        "The fall is {errors} in {span}.",
        "No sample is without a reward in {count} steps in a row.",
        "{share} of the differences between trainer and engine are at the first token of the response, "
        "{value} nats there on average; {count} responses were read.",
        "{share} of the differences between trainer and engine are at the last token of the response, "
        "{value} nats there on average; {count} responses were read.",
        "{share} of the differences between policy and reference are at the first token of the response, "
        "{value} nats there on average; {count} responses were read.",
        "{share} of the differences between policy and reference are at the last token of the response, "
        "{value} nats there on average; {count} responses were read.",
        "The difference is {errors} of the two windows.",
        "The difference is {errors} of two windows of steps, over up to {count} samples of each "
        "step that were read.",
        "A rise of {size} standard deviations of a step's samples within {count} steps; {errors} "
        "of the two windows.",
        "Mean of exp|difference of logprobs|: up to {value} in {span}; 1 means equal, the limit is {limit}.",
        "It may not be harmful yet; the limit of the rule Engine mismatch is a mean of {limit}.",
        "KL k3 is below {limit} nats per token in {count} steps; a policy that learns moves away "
        "from its reference.",
        "An effective sample size of about {share} of the tokens; it was {before}.",
        "{share} of them are equal in prompt and response.",
        "{share} of its samples in these steps are equal in prompt and response.",
        "{share} of the samples in these steps are equal in prompt and response.",
        "Correlation of both in the affected samples: {value}.",
        "Correlation of length and reward: {before} in the first five steps, then up to {value}.",
        "Among responses to the same prompt: {value}; unlike the pooled value, it does not depend "
        "on how difficult the prompts are.",
        "{count} of {all} samples; means and sums leave them out.",
        "{tokens} tokens in {count} of {all} samples; means leave out these tokens, and sums of "
        "these samples have no value.",
        "{share} of the samples: {listed}.",
        "{count} or more other ranks have samples in these steps.",
        "{count} phrases of three words are new.",
        "At most {share} of the samples of {span} have it. No other phrase is new.",
        "At most {share} of the samples of {span} have it. {count} phrases of three words are new.",
        "The most common end before: {text}; now: {words}.",
        "The most common begin before: {text}; now: {words}.",
        "{share} of the prompts still end as before.",
        "{share} of the prompts still begin as before.",
        "Duplicate responses: {before} before, then {value}.",
        "It is {errors} below 0, clustered by group.",
        "Outside {low} to {high} in {span}, by {errors}.",
        "{count} steps in a row repeat the prompts of the step {lag} logged steps earlier.",
        "Step {step} has {count} prompts; all were seen before.",
        "Before: {text}.",
        "Now: {text}.",
        "The largest before was {value}.",
        "It is {factor} times as high.",
        "Groups per step: {before} before, then {value}; samples per group: {earlier} before, then {later}.",
        "In {count} of {all} steps it is exactly {value}.",
        "Before and after: {listed}.",
        "{share} of the rollouts in these steps have a single turn.",
        "Of the calls of {tool}, {value} of {count} fail: {share}{compared}.",
        "{gap} ± {error} (2 s.e.) over {count} groups that have rollouts with and without an error "
        "of {tool}.",
        "{count} of {all} rollouts that call {tool} have such an error.",
        "Also: {rows}.",
        "{count} numbers of each step were compared with the 20 steps before. The first one "
        "differs by {value} standard errors.",
        "{count} samples, {share} of those of these steps whose lag is known.",
        "The bound is {pages}.",
        "{some} is the part {name}, which {share} of the samples lack ({before} before).",
        "{some} is the part {name}: {value} after {before}.",
        "The mix of {name} makes {amount} of the change of {label}: {listed}.",
        "{text} samples {carry} {carried} of {label} in {span}: without it it is {value}, not {all}.",
        "{text} samples {carry} {carried} of {label} in {span}: without them it is {value}, not {all}.",
        "{carrier} carries {carried} of {label}: its {count} of {all} samples have {value}.",
        "{carrier} carries {carried} of {label}: its share of the samples went from {before} to {after}.",
        "{carrier} carries {carried} of {label}: its {count} of {all} samples have {value}, after "
        "{before} in {span}.",
        "Prompts that were seen before ({count} of {all}) rose as well: {before} when they were "
        "last seen, then {value}.",
        "Prompts that were seen before ({count} of {all}) fell as well: {before} when they were "
        "last seen, then {value}.",
        "Prompts that were seen before ({count} of {all}) did not change like this: {before} when "
        "they were last seen, then {value}.",
        "The trainer's scalars moved: {listed}.",
        "Also different in {span}: {differences}.",
        "Nothing else differs clearly between {span} and {earlier_span}, of {things} compared{readings}.",
    ),
    "advice": (
        "Compare precision, kernels and weight synchronisation of engine and trainer on this rank.",
        "Compare precision, kernels and weight synchronisation of engine and trainer.",
        "The policy moved at once, not a few tokens: check the learning rate, the gradient norm "
        "and the batch of step {step}.",
        "Read the errors and time-outs of the reward function {name}.",
        "The mix of {name} changed, so compare within it before you blame the policy; then the "
        "data loader, the curriculum and filters.",
        "The prompts from step {step} on differ, not how they are answered: check the data.",
        "No word, length or likelihood of the responses differs clearly: first compare the reward "
        "function, its judge and the ground truths of step {step} with those before.",
        "The policy itself moved at step {step}: check the learning rate, the gradient norm, the "
        "KL coefficient and the weights that were loaded.",
        "Read responses of step {step} where one {text}, and compare their rewards.",
        "Read responses of step {step} beside those before, sorted by {label}.",
    ),
}
