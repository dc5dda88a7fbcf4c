// Shows HTML that the server has escaped, with buttons. A click sends the name of the button.
export function render({ model }) {
  const box = element("div", "notice")
  const text = element("div", "text")
  const buttons = Object.keys(model.buttons).map((name) => button(name, "", "", () => model.send_msg(name)))
  const drawText = () => {
    text.innerHTML = model.html
    for (const code of text.querySelectorAll("pre")) {
      const said = code.textContent
      const node = button("copy", t("copy"), t("Copy this"), async () => {
        await copy(said)
        showCopied(node)
      })
      code.append(node)
    }
  }
  const drawButtons = () => {
    for (const node of buttons) {
      const label = model.buttons[node.className]
      node.textContent = label
      node.hidden = !label
    }
  }
  model.on("html", drawText)
  model.on("buttons", drawButtons)
  drawText()
  drawButtons()
  box.append(text, ...buttons)
  return box
}
