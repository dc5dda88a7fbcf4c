// Computes metrics that are derived from log-probabilities, so that they need not be sent. The formulas are
// those of rlpanel/metrics and take the inputs ("needs") in the same order. metric_rows.py lists them (DERIVED).

const CLAMP = 20

/** exp(x) - 1 - x with x clamped as in rlpanel/metrics/kl_divergence.py. */
function excess(x) {
  const clamped = Math.min(CLAMP, Math.max(-CLAMP, x))
  return Math.expm1(clamped) - clamped
}

const FORMULAS = {
  log_ratio: (policy, reference) => policy - reference,
  kl_k3: (policy, reference) => excess(reference - policy),
  kl_k2: (policy, reference) => 0.5 * (policy - reference) ** 2,
  kl_rllb: (policy, reference) => excess(policy - reference),
  surprisal: (policy) => -policy,
  logprob: (policy) => policy,
  ref_logprob: (reference) => reference,
  prob: Math.exp,
  ref_prob: Math.exp,
}

/** The row's value at each token, from input arrays of equal length. */
function computeRow(name, [first, second]) {
  const formula = FORMULAS[name]
  return Float64Array.from(first, (x, i) => formula(x, second?.[i]))
}
