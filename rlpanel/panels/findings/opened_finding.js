// Draws the line of the opened finding. Texts are inserted as text, never as HTML.
export function render({ model }) {
  const line = element("div", "opened")
  const open = (key, choice) => model.send_msg([key, choice])
  const draw = () => {
    const finding = model.finding
    if (!finding.key) {
      line.replaceChildren()
      return
    }
    const close = link("close", "×", t("Close the finding: the steps are no longer shaded"), () =>
      open(finding.key, "close"),
    )
    close.setAttribute("aria-label", t("Close the finding"))
    const text = link("sentence", "", finding.sentence, () => open(finding.key, "curve"))
    const title = t("Finding: {title}", { title: finding.title })
    text.append(element("b", "", title), " ", element("span", "", finding.sentence))
    const python = link("step python", "Python", t("Copy the notebook cell that loads the finding"), () =>
      open(finding.key, "python"),
    )
    const claim = link("step claim", t("claim"), t("Write this finding into the run's investigation"), () =>
      open(finding.key, "claim"),
    )
    claim.hidden = !model.writes
    const { key, said = "" } = model.claimed
    const words = element("span", "claimed", key === finding.key ? said : "")
    words.setAttribute("role", "status")
    const links = element("div", "links")
    const steps = stepLinks(finding, open, model.step)
    const others = element("div", "row")
    others.append(words, ...steps.querySelectorAll(".bisect"), claim, python)
    const first = element("div", "row")
    first.append(steps, close)
    links.append(first, others)
    line.replaceChildren(mark(finding.severity), text, links)
  }
  model.on("msg:custom", async (message) => {
    await copy(message.copy)
    showCopied(line.querySelector(".python"))
  })
  model.on(["finding", "step", "claimed"], draw)
  draw()
  return line
}
