"""Templates of sentences that rules write: of findings, of their evidence and advice, and of lint."""

from __future__ import annotations

# -- finding phrases -----------------------------------------------------------------------------------
# Leading sentences of findings, as templates: the rules write them in English, the page in any language.


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


# -- evidence phrases ----------------------------------------------------------------------------------
# Evidence and advice of findings, as templates, beside those that have no values.


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


# -- lint phrases --------------------------------------------------------------------------------------
# Templates of the English sentences that lint rules write about samples and tokenizers.


#: How advantages follow from rewards, and how a loss averages: names within the templates.
FORMULAS = (
    "std of the group, n − 1",
    "std of the group, n",
    "one std for the step",
    "mean of the group",
    "mean of the others",
    "mean and std of the step",
    "group",
    "step",
)

LINT: dict[str, tuple[str, ...]] = {
    "lint": (
        "the sign is wrong: advantage {value} at reward {reward}",
        "the sum of its group is not 0: advantage {value} at reward {reward}",
        "the sum of its step is not 0: advantage {value} at reward {reward}",
        "not (r − mean) by {title}: advantage {value} at reward {reward}",
        "advantages differ by {value} within the sample",
        "{name}: all tokens weigh the same, so long responses weigh more",
        "{name}: all tokens of a prompt's responses weigh the same, and each prompt weighs the same",
        "{name}: a token of a response of {long} tokens weighs {share} of one of {short} tokens",
        "several prompts in its group",
        "its prompt is in several groups, one of them not whole",
        "the rest of its group is in the next or last step",
        "versions {low} to {high} in its group",
        "{count} samples in its group, {size} are usual",
        "the same response is in its group again",
        "{name}: {count} above 0; first token {token}",
        "{name}: {count} are −∞; first token {token}",
        "{name}: all are the same number",
        "logprobs and {name} differ by {value} per token, and by {best} one token later",
        "logprobs and {name} differ by {value} per token, and by {best} one token earlier",
        "all tokens are equal to the bit: one is a copy",
        "policy and reference are equal to the bit: a policy that does not train, or a reference that does",
        "σ(engine) ÷ σ(trainer) = {ratio} at r = {value}: about {factor} times the temperature",
        "none of {count} tokens is in the loss",
        "'{name}' has not as many values as {text}",
        "{count} of {size} tokens of a message of the {name} are outside the loss, from token {token}",
        "{count} of {size} tokens of a message of the {name} are in the loss, from token {token}",
        "the mask is one token too late",
        "the mask is one token too early",
        "{count} rewards are outside the loss; first token {token}: {value}",
        "{count} of {size} tokens in the loss are 0",
        "{count} tokens {text} are in the loss",
        "retokenised after the sample before it in its episode",
        "reasoning dropped after the sample before it in its episode",
        "compaction after the sample before it in its episode",
        "all {count} special tokens have the teacher's logprob {value}",
        "mean KL {value} nats at a surprisal of {surprisal}",
        "id {token} is {text} and {words}",
        "the prompt begins with {text} twice",
        "it finished, but its last trained token is {text}",
        "{text} at character {at} of the prompt",
        "no header of a chat template in {text}",
        "{text} before a message of the {name} is in the loss",
        "{text} in the text of a message of the {name}",
        "{text} in the tokens, {words} in the text, at character {at}",
        "the ground truth {text} is in the prompt",
        "the value of {name} is in the prompt",
        "the prompt has {text}",
        "{text}, and {words} in a sample before",
        "{title}, as named",
        "{title}, which fits most samples",
        "{count} of {size} samples",
        "the rule failed, which is a fault of rlpanel: {reason}",
        "the tokenizer {text} is not in the local Hugging Face cache: name its file with --tokenizer",
        "the tokenizer {text} is a path: name its file with --tokenizer",
        "the tokenizer cannot be loaded: {reason}",
        "{text} decodes the ids of {count} samples to texts that none of them logs: name the run's own "
        "tokenizer with --tokenizer",
    ),
}
