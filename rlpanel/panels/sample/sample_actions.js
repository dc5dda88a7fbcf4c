// What a reader leaves on the sample, and what is copied from it. Texts are set as values and textContent only.

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
    input.addEventListener("focus", () => model.send_msg({ do: "hold", uid }))
    input.addEventListener("change", leave)
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === "Escape") { input.blur() }
    })
  }

  const tell = (words) => {
    said.textContent = words
    setTimeout(() => { if (said.textContent === words) { said.textContent = model.failure } }, 1500)
  }
  const button = (text, title, act) => {
    const node = Object.assign(element("button", "", text), { title })
    node.addEventListener("click", act)
    return node
  }
  const copying = element("span", "copying", "copy")
  for (const what of ["uid", "prompt", "response", "link"]) {
    copying.append(button(what, `copy the sample's ${what}`, () => {
      if (what === "link") { copy(link(model.place)).then(() => tell("copied")) }
      else { model.send_msg({ do: "copy", what }) }
    }))
  }
  const keep = button("save", "the sample as a file: texts, tokens, numbers", () => model.send_msg({ do: "save" }))
  const page = button("html", "the sample as a page that opens without a server", () => model.send_msg({ do: "page" }))
  model.on("msg:custom", ({ file, bytes, kind, text }) => {
    if (file) { save([bytes], file, kind) }
    else { copy(text).then(() => tell("copied")) }
  })

  const show = () => {
    const same = uid === model.place.uid, active = box.getRootNode().activeElement
    uid = model.place.uid ?? ""
    for (const [input, value] of [[tag, model.tag], [note, model.note]]) {
      if (!(same && input === active)) { input.value = value }  // who types is not interrupted
    }
    said.textContent = model.failure
    box.hidden = !uid
    offered.replaceChildren(...model.used.map((text) => Object.assign(element("option"), { value: text })))
  }
  for (const name of ["place", "tag", "note", "used", "failure"]) { model.on(name, show) }
  show()
  box.append(tag, offered, note, said, copying, keep, page)
  return box
}
