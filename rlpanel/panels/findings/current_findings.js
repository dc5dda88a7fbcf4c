// Draws the worst current finding, and the number of the others, which opens their list. Texts are inserted as
// text, never as HTML.
export function render({ model }) {
  const line = element("div", "current")
  line.setAttribute("aria-label", t("Current findings"))
  line.setAttribute("role", "status")
  const draw = () => {
    const [finding, ...others] = model.found
    if (!finding) {
      const text = model.checked
        ? t("No finding in the newest complete steps")
        : t("The rules check the run …")
      line.replaceChildren(element("span", "none", text))
      return
    }
    const title = t("{title}: show the first affected step and a sample", { title: finding.title })
    const sentence = link("sentence", finding.sentence, `${finding.sentence} ${title}`, () =>
      model.send_msg([finding.key, "onset"]),
    )
    line.replaceChildren(mark(finding.severity), sentence)
    if (others.length) {
      const text = others.length === 1 ? t("+1 finding") : t("+{count} findings", { count: others.length })
      const list = () => window.dispatchEvent(new CustomEvent("rl-findings"))
      line.append(link("others", text, others.map((other) => other.sentence).join("\n"), list))
    }
  }
  model.on(["found", "checked"], draw)
  draw()
  return line
}
