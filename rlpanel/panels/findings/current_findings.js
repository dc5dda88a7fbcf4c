// Draws the worst current findings as lines above the curves. Texts are inserted as text, never as HTML.
export function render({ model }) {
  const list = element("ul", "current")
  list.setAttribute("aria-label", t("Current findings"))
  const draw = () => {
    list.replaceChildren(
      ...model.found.map((finding) => {
        const item = element("li")
        const title = t("{title}: show the first affected step and a sample", { title: finding.title })
        item.append(
          mark(finding.severity),
          link("sentence", finding.sentence, title, () => model.send_msg([finding.key, "onset"])),
        )
        return item
      }),
    )
  }
  model.on("found", draw)
  draw()
  return list
}
