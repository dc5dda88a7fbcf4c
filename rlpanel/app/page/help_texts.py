"""Texts of the help behind the ``?``: parts of the page, words, and where more is written."""

from __future__ import annotations

from rlpanel.panels.language.labels import marked

#: Part of the page → what it shows, and what a click does.
PARTS = {
    marked("Findings"): marked(
        "What rules found wrong, the worst first. A click shows the first affected step and a sample."
    ),
    marked("Curves"): marked(
        "One number per step. A click selects the step; a drag zooms; ⋮ says what the curve shows, exports "
        "it and copies it as Python."
    ),
    marked("Samples"): marked(
        "The prompts and responses of the selected step. Search, filter and sort them; a click shows one."
    ),
    marked("Sample"): marked(
        "One prompt and its response: the conversation, its tokens in the colour of a metric, its group, its "
        "history."
    ),
}
#: Word → its meaning; `docs/glossary.md` has all of them.
WORDS = {
    marked("step"): marked("One update of the policy."),
    marked("group"): marked("The samples of one prompt in one step."),
    marked("reward"): marked("The score of a whole response."),
    marked("advantage"): marked(
        "How much better a response was than expected, such as than its group's mean."
    ),
    marked("reference"): marked("The frozen model from which the KL divergence is measured."),
    marked("log-ratio"): marked(
        "Logprob of a token under the policy minus that under the reference, in nats."
    ),
    marked("KL k3, KL k2"): marked("Estimates of the KL divergence from the log-ratios."),
    marked("surprisal"): marked("Minus the logprob of a token: high where the policy was unsure."),
    marked("engine mismatch"): marked(
        "How far the logprobs of the program that samples are from the trainer's; 1 means equal."
    ),
    marked("onset"): marked("The first step that a finding affects."),
}
#: Where more is written.
MORE = {
    "docs/glossary.md": marked("all words"),
    "docs/metrics.md": marked("all metrics with their formulas"),
    "docs/findings.md": marked("all rules with their thresholds"),
    "docs/tutorial.md": marked("a collapse, from the first look to its cause"),
}
#: Shown at the first visit, until it is closed.
FIRST_VISIT = marked(
    "First visit? Start with the line of findings above the curves; a click leads to the step and to a "
    "sample. ? explains what you see."
)
