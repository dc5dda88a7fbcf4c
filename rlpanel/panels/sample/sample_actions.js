// Fields for the tag and note of a sample, and buttons that copy or save it. Texts are only set as values and
// textContent, never as HTML.

export function render({ model, el }) {
  const box = element("div", "actions")
  const chip = element("span", "chip")
  const menu = element("details", "menu")
  const summary = element("summary", "", t("tag, copy, save ▾"))
  summary.title = t("Tag and note of the sample, copies and files of it")
  const panel = element("div", "panel")
  menu.append(summary, panel)
  const stop = closeOnEscape(menu, summary)
  model.on("remove", stop)
  const tag = element("input", "tag"),
    note = element("input", "note")
  const suggestions = element("datalist"),
    status = element("span", "said")
  suggestions.id = "tags"
  Object.assign(tag, { placeholder: t("tag"), maxLength: 40 })
  Object.assign(note, { placeholder: t("note"), maxLength: 2000 })
  tag.setAttribute("list", "tags")
  tag.setAttribute("aria-label", t("tag of the sample"))
  note.setAttribute("aria-label", t("note on the sample"))
  // Sample to which the fields belong; another one may be selected when a change is sent.
  let uid = ""
  const sendNote = () => model.send_msg({ do: "leave", uid, tag: tag.value, note: note.value })
  for (const input of [tag, note]) {
    input.disabled = model.fixed
    input.addEventListener("focus", () => model.send_msg({ do: "hold", uid }))
    input.addEventListener("change", sendNote)
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === "Escape") input.blur()
    })
  }

  const showStatus = (text) => {
    status.textContent = text
    setTimeout(() => {
      if (status.textContent === text) status.textContent = model.failure
    }, 1500)
  }
  const button = (text, title, onClick) => {
    const node = Object.assign(element("button", "", text), { title, ariaLabel: title })
    node.addEventListener("click", onClick)
    return node
  }
  const copying = element("span", "copying", t("copy"))
  for (const what of ["uid", "prompt", "response"]) {
    copying.append(
      button(what, t("Copy the {what} of the sample", { what }), () => {
        model.send_msg({ do: "copy", what })
      }),
    )
  }
  copying.append(
    button("Python", t("Copy the notebook cell that loads the sample"), () => {
      model.send_msg({ do: "copy", what: "Python" })
    }),
  )
  const saving = element("span", "copying", t("save as"))
  const saveButton = button("JSON", t("Save the sample as a JSON line: texts, tokens, numbers"), () =>
    model.send_msg({ do: "save" }),
  )
  const pageButton = button("HTML", t("Save the sample as an HTML page that opens without a server"), () =>
    model.send_msg({ do: "page" }),
  )
  model.on("msg:custom", ({ file, bytes, kind, text, reveal }) => {
    if (reveal) {
      // On a phone the sample stands above the grid, and may be out of sight.
      const head = el.parentElement?.querySelector(".rl-sample-head")
      if (head?.getBoundingClientRect().bottom < 0) head.scrollIntoView()
    } else if (file) save([bytes], file, kind)
    else {
      copy(text).then(() => showStatus(t("copied")))
    }
  })

  const show = () => {
    const same = uid === model.place.uid,
      active = box.getRootNode().activeElement
    uid = model.place.uid ?? ""
    for (const [input, value] of [
      [tag, model.tag],
      [note, model.note],
    ]) {
      if (!(same && input === active)) input.value = value // do not overwrite a field while it is edited
    }
    status.textContent = model.failure
    chip.textContent = [model.tag, model.note].filter(Boolean).join(": ")
    chip.title = chip.textContent
    menu.hidden = !uid
    suggestions.replaceChildren(
      ...model.used.map((text) => Object.assign(element("option"), { value: text })),
    )
  }
  for (const name of ["place", "tag", "note", "used", "failure"]) model.on(name, show)
  show()
  saving.append(saveButton, pageButton)
  panel.append(tag, note, suggestions, copying, saving, status)

  // The button and a double click on the head give the sample the whole page.
  const resize = () => model.send_msg({ do: "resize" })
  const size = button("⤢", "", resize)
  size.className = "size"
  const showSize = () => {
    size.textContent = model.whole ? "⤡" : "⤢"
    size.title = size.ariaLabel = model.whole ? t("Back to the board (Esc)") : t("Whole page (m)")
    size.setAttribute("aria-pressed", String(model.whole))
  }
  model.on("whole", showSize)
  showSize()
  model.on("after_render", () => {
    const head = el.parentElement?.querySelector(".rl-sample-head")
    head?.addEventListener("dblclick", resize)
  })
  box.append(
    quotationForm(model, () => uid),
    chip,
    menu,
    size,
  )
  return box
}
