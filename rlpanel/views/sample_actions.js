// What a reader leaves on the sample, and what is copied from it. Texts are set as values and textContent only.
const element = (tag, className, text) => {
  const node = document.createElement(tag)
  if (className) { node.className = className }
  if (text !== undefined) { node.textContent = text }
  return node
}

async function copy(text) {
  if (navigator.clipboard && window.isSecureContext) { return navigator.clipboard.writeText(text) }
  const area = element("textarea")  // a page served over plain http to another machine
  area.value = text
  document.body.append(area)
  area.select()
  document.execCommand("copy")
  area.remove()
}

// The page's address, with the sample in it even while the board follows the newest step.
function link({ run, step, uid }) {
  const query = new URLSearchParams(location.search)
  for (const [key, value] of [["run", run], ["step", step], ["sample", uid]]) { query.set(key, value) }
  return `${location.origin}${location.pathname}?${query}`
}

export function render({ model }) {
  const box = element("div", "actions")
  const tag = element("input", "tag"), note = element("input", "note")
  const offered = element("datalist"), said = element("span", "said")
  offered.id = "tags"
  Object.assign(tag, { placeholder: "tag", maxLength: 40 })
  Object.assign(note, { placeholder: "note", maxLength: 2000 })
  tag.setAttribute("list", "tags")
  tag.setAttribute("aria-label", "tag of the sample")
  note.setAttribute("aria-label", "note on the sample")
  // The sample that the fields were filled for, which need not be the one shown when they are left.
  let uid = ""
  const leave = () => model.send_msg({ do: "leave", uid, tag: tag.value, note: note.value })
  for (const input of [tag, note]) {
    input.addEventListener("change", leave)
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === "Escape") { input.blur() }
    })
  }

  const tell = (words) => {
    said.textContent = words
    setTimeout(() => { if (said.textContent === words) { said.textContent = model.failure } }, 1500)
  }
  const copying = element("span", "copying", "copy")
  for (const what of ["uid", "prompt", "response", "link"]) {
    const button = element("button", "", what)
    button.title = `copy the sample's ${what}`
    button.addEventListener("click", () => {
      if (what === "link") { copy(link(model.place)).then(() => tell("copied")) }
      else { model.send_msg({ do: "copy", what }) }
    })
    copying.append(button)
  }
  model.on("msg:custom", (event) => { copy(event.data.text).then(() => tell("copied")) })

  const show = () => {
    uid = model.place.uid ?? ""
    tag.value = model.tag
    note.value = model.note
    said.textContent = model.failure
    box.hidden = !uid
    offered.replaceChildren(...model.used.map((text) => Object.assign(element("option"), { value: text })))
  }
  for (const name of ["place", "tag", "note", "used", "failure"]) { model.on(name, show) }
  show()
  box.append(tag, offered, note, said, copying)
  return box
}
