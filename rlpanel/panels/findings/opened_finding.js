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
    const chip = element("span", "chip")
    const close = link("close", "×", t("Close the finding: the steps are no longer shaded"), () =>
      open(finding.key, "close"),
    )
    close.setAttribute("aria-label", t("Close the finding"))
    chip.append(mark(finding.severity), t("Finding: {title}", { title: finding.title }), close)
    const sentence = link("sentence", finding.sentence, finding.sentence, () => open(finding.key, "curve"))
    const python = link("step python", "py", t("Copy the notebook cell that loads the finding"), () =>
      open(finding.key, "python"),
    )
    const claim = link("step claim", t("claim"), t("Write this finding into the run's investigation"), () =>
      open(finding.key, "claim"),
    )
    claim.hidden = !model.writes
    const { key, said = "" } = model.claimed
    const words = element("span", "claimed", key === finding.key ? said : "")
    words.setAttribute("role", "status")
    line.replaceChildren(chip, sentence, stepLinks(finding, open, model.step), claim, python, words)
  }
  model.on("msg:custom", async (message) => {
    await copy(message.copy)
    showCopied(line.querySelector(".python"))
  })
  model.on(["finding", "step", "claimed"], draw)
  draw()
  return line
}
