// Help of the filter in place: examples for this run, words of the language, and the run's columns.

/** Filters with what they find; one is offered if the run has its columns. */
const EXAMPLES = [
  ["reward < 0 and response_tokens > 500", t("both conditions"), ["reward", "response_tokens"]],
  ["kl_k3_mean > p99", t("above a percentile of these samples"), ["kl_k3_mean"]],
  ["match = yes and reward = 0", t("the answer equals the truth, the reward is 0"), ["match", "reward"]],
  ["group_reward < p10", t("groups with the lowest mean rewards"), ["group_reward"]],
  ["tool_errors > 0 or truncated = 1", t("one of two conditions"), ["tool_errors", "truncated"]],
  ['response contains "sorry"', t("a text, ignoring case; also startswith, endswith"), ["response"]],
  ['response matches "\\b(\\d+) \\1\\b"', t("a regular expression"), ["response"]],
  ['finish_reason in ["length", "abort"]', t("one of several texts"), ["finish_reason"]],
  ["missing(reward)", t("a value that was not logged"), ["reward"]],
  ['tag = "odd"', t("samples with a tag"), ["tag"]],
]

/** Create a button that opens the help; `write` puts an example or a column into the filter. */
function filterHelp(model, write) {
  const box = element("details", "help")
  const summary = element("summary", "", "?")
  summary.title = summary.ariaLabel = t("What a filter can say")
  const panel = element("div", "panel")
  const entry = (text, about, whole) => {
    const row = element("button")
    row.type = "button"
    row.title = t("Write it into the filter")
    row.addEventListener("click", () => {
      box.open = false
      write(text, whole)
    })
    row.append(element("b", "", text), element("span", "", about))
    return row
  }
  closeOnEscape(box, summary)
  box.addEventListener("toggle", () => {
    if (!box.open) return
    panel.style.maxHeight = `${Math.max(180, innerHeight - summary.getBoundingClientRect().bottom - 24)}px`
    const names = new Set(model.names.map(([name]) => name))
    const fitting = EXAMPLES.filter(([, , needed]) => needed.every((name) => names.has(name)))
    panel.replaceChildren(
      element("h4", "", t("Examples")),
      ...fitting.map(([text, about]) => entry(text, about, true)),
      element("h4", "", t("Words")),
      element(
        "p",
        "",
        "and  or  not  ( )  = != < <= > >=  + - * /  in [ ]  contains  matches  missing( )  p1 … p99",
      ),
      element("h4", "", t("Columns")),
      ...model.names.map(([name, about]) => entry(name, about, false)),
    )
  })
  box.append(summary, panel)
  return box
}
