"""Declares the settings of what a page shows, with default, bounds and help, for side panel and docs."""

from __future__ import annotations

import param

KL_ESTIMATORS = {"k3": "kl_k3", "k2": "kl_k2", "k1 (log-ratio)": "log_ratio", "RLLoggingBoard": "kl_rllb"}
BANDS = {
    "automatic": "auto",
    "± 2 standard errors": "se",
    "IQR (25–75%)": "iqr",
    "± 1σ": "std",
    "min–max": "range",
    "density": "density",
    "ridge": "ridge",
    "none": "none",
}
#: What the mean of a reward is taken over.
COUNTS = {"episodes": "episodes", "rows": "rows"}
#: How answers are read: label → key of `rlpanel.texts.final_answers`.
ANSWER_RULES = {
    "rule that fits best": "auto",
    "last box of LaTeX": "boxed",
    "<answer>…</answer>": "tag",
    "after ####": "hash",
    "letter of a choice": "choice",
    "last number": "number",
    "last line": "line",
}


class Display(param.Parameterized):
    """Display settings, which a viewer changes in the side panel; each browser session has its own."""

    band = param.Selector(
        default="auto",
        objects=BANDS,
        label="Band",
        doc="What curves show around the mean: a band, the density of all values at each step, or ridges. "
        "Automatic: the density for a reward of many values with 64 samples a step or more, ± 2 standard "
        "errors for few values, such as rewards of 0 and 1, else the IQR. Few values never get the IQR, "
        "whose edges would jump between them.",
    )
    variance_scale = param.Number(
        default=1.0,
        bounds=(0.1, 1.0),
        step=0.1,
        label="Variance scaling",
        doc="Factor on the half-width of the ±1σ band, for runs whose spread hides the mean.",
    )
    zero_shift = param.Boolean(
        default=False,
        label="Zero shift",
        doc="Shift each curve so that its first value is 0, to compare how much the curves changed.",
    )
    run_events = param.Boolean(
        default=True,
        label="Events",
        doc="Mark restarts, evaluations, the trainer's events and notes on steps at the top of each curve.",
    )
    kl_estimator = param.Selector(
        default="kl_k3",
        objects=KL_ESTIMATORS,
        label="KL estimator",
        doc="The estimator of KL(policy || reference) in curves, grid and tokens. rllb is the number that "
        "RLLoggingBoard calls KL; it does not estimate this divergence.",
    )
    per_sequence = param.Boolean(
        default=False,
        label="KL per sequence",
        doc="Show the KL summed over the response's tokens instead of its mean per token.",
    )
    fold_templates = param.Boolean(
        default=True,
        label="Fold chat templates",
        doc="Recognise chat templates, padding and the beginning that prompts share. Tables show the last "
        "user turn, and a prompt folds the rest. Off: only the next two settings apply.",
    )
    pad_token = param.String(
        default="<|pad|>",
        label="Pad token",
        doc="Token that is removed from displayed texts; empty removes none. Common padding tokens at the "
        "start or end of a text are recognised without it.",
    )
    system_end = param.String(
        default="",
        label="System prompt ends",
        doc="Marker at the end of the system prompt, for example <|im_end|>; the text up to its first "
        "occurrence is folded, and the rest of the prompt is shown as it is. Not needed for chat templates "
        "that are recognised.",
    )
    max_samples = param.Integer(
        default=2048,
        bounds=(8, 20_000),
        label="Max samples a step",
        doc="Maximum number of a step's samples in the grid and the token ranking, chosen reproducibly by "
        "uid. Statistics and distributions always use all samples.",
    )
    older_attempts = param.Boolean(
        default=False,
        label="Older attempts",
        doc="Also show the samples that a restart of the training job replaced in the grid. Statistics use "
        "the newest attempt only.",
    )
    count_rewards = param.Selector(
        default="episodes",
        objects=COUNTS,
        label="Count rewards by",
        doc="An episode may have several rows: outputs, steps or branches. Episodes: its reward counts once, "
        "by its last row, as the trainers report it. Rows: the reward of each row counts. Tokens and other "
        "columns are counted by rows, and findings by episodes.",
    )
    fold_episodes = param.Boolean(
        default=False,
        label="One row per episode",
        doc="Show only the first trace of each episode in the grid, with the number of its traces. "
        "Statistics do not depend on it.",
    )
    answer_rule = param.Selector(
        default="auto",
        objects=ANSWER_RULES,
        label="Answers are read by",
        doc="How the answer is read from a response, to stand beside the ground truth. By default the rule "
        "whose answers equal the ground truth in most of 48 samples of the run.",
    )
    stuck_steps = param.Integer(
        default=3,
        bounds=(1, 10_000),
        label="Prompts seen at (steps)",
        doc="A prompt must occur with a reward at this many steps or more to have a class, such "
        "as learnt or never.",
    )
