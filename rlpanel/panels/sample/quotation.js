// A text that is selected in the sample's views becomes a quotation in the run's investigation.

/** Fewest characters that are a quotation. */
const LEAST_QUOTED = 3

/** Return the text that is selected around an event, also inside of shadow roots. */
function selectedText(event) {
  const roots = new Set(event.composedPath().map((node) => node.getRootNode?.()))
  const found = [...roots, document].map((root) => root?.getSelection?.())
  return (
    found
      .find((selection) => selection && !selection.isCollapsed)
      ?.toString()
      .trim() ?? ""
  )
}

/** Return whether an event is in a view of the shown sample, and not in its head. */
const isInSample = (event, head) => {
  const path = event.composedPath()
  return path.some((node) => node.classList?.contains("rl-sample")) && !path.includes(head)
}

/** A button that stands there while a text is selected, and a field for the sentence that it supports. */
function quotationForm(model, uidOf) {
  const form = element("form", "quotation")
  const begin = button(
    "claim",
    t("claim this"),
    t("Write the selected text into the run's investigation"),
    () => open(),
  )
  const sentence = element("input", "sentence")
  const write = Object.assign(element("button", "", t("write")), { type: "submit" })
  const words = element("span", "said")
  Object.assign(sentence, { placeholder: t("what it shows (may stay empty)"), maxLength: 2000 })
  sentence.setAttribute("aria-label", t("Sentence that the selected text supports"))
  words.setAttribute("role", "status")
  form.append(begin, sentence, write, words)
  let [text, uid] = ["", ""]
  const show = (stage) => {
    begin.hidden = stage !== "selected"
    sentence.hidden = write.hidden = stage !== "open"
    words.hidden = stage !== "said"
  }
  const open = () => {
    show("open")
    sentence.value = ""
    sentence.title = text
    sentence.focus()
  }
  const select = (event) => {
    if (model.fixed || event.composedPath().includes(form)) return
    const found = isInSample(event, form.parentElement) ? selectedText(event) : ""
    if (found === text) return
    text = found.length < LEAST_QUOTED ? "" : found
    uid = uidOf()
    show(text ? "selected" : "")
  }
  form.addEventListener("keydown", (event) => {
    event.stopPropagation() // keys of the page are ordinary letters here
    if (event.key === "Escape") show("selected")
  })
  form.addEventListener("submit", (event) => {
    event.preventDefault()
    model.send_msg({ do: "claim", uid, text, sentence: sentence.value })
    show("said")
  })
  model.on("claimed", () => {
    words.textContent = model.claimed
  })
  document.addEventListener("pointerup", select)
  document.addEventListener("keyup", select)
  model.on("remove", () => {
    document.removeEventListener("pointerup", select)
    document.removeEventListener("keyup", select)
  })
  show("")
  return form
}
