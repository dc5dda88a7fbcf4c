// Draws the form that maps keys to fields: the first record as a tree, a row for each field, a preview of the
// first samples, and what to do next. Text of a file is set as text, never as HTML.

const NONE = ""
const CONSTANT = "\0step" // no key begins with a zero byte

/** Return a card with a heading. */
function card(className, title, ...inside) {
  const node = element("section", `card ${className}`)
  node.append(element("h3", "", title), ...inside)
  return node
}

function option(value, label) {
  const node = element("option", "", label)
  node.value = value
  return node
}

/** Draw the lines of a record's tree; each names the fields that its key is mapped to. */
function drawTree(lines, mapped) {
  const tree = element("div", "tree")
  for (const { depth, name, kind, value, key } of lines) {
    const line = element("div", "line")
    line.style.paddingInlineStart = `${depth * 14}px`
    line.append(element("span", "key", name), element("span", "kind", kind))
    for (const field of (key && mapped.get(key)) || []) line.append(element("span", "mapped", field))
    if (value) line.append(element("span", "value", value))
    tree.append(line)
  }
  return tree
}

/** Draw one sample of the preview. */
function drawSample({ title, facts, texts, notes }) {
  const node = element("article", "sample")
  const head = element("div", "facts")
  head.append(element("b", "", title))
  for (const [name, value] of facts) {
    const fact = element("span", "fact")
    fact.append(element("span", "name", name), element("span", "number", value))
    head.append(fact)
  }
  node.append(head)
  for (const [name, text, chars] of texts) {
    const row = element("div", "text")
    row.append(element("span", "name", name), element("div", "said", text))
    if (chars) row.append(element("span", "chars", chars))
    node.append(row)
  }
  for (const note of notes) node.append(element("p", "problem", note))
  return node
}

export function render({ model }) {
  const page = element("div", "map")
  const head = element("div", "top")
  const record = element("div", "record")
  const form = element("div", "fields")
  const preview = element("div", "samples")
  const next = element("div", "next")
  const columns = element("div", "columns")
  const samples = card("preview", t("The first samples, as they would be read"), preview)
  columns.append(card("first", t("The first record"), record), card("which", t("Field ← key"), form))
  page.append(head, columns, samples, next)
  let sent = model.draft.answered ?? 0

  const send = (...message) => {
    sent += 1
    model.send_msg([...message, sent])
  }

  const drawHead = () => {
    const { title, why, sentence, folder, files = [], file } = model.found
    head.replaceChildren(element("h2", "", title), element("p", "folder", folder))
    if (why) head.append(element("p", "sentence", why))
    if (sentence) head.append(element("p", "sentence", sentence))
    if (files.length > 1) {
      const label = element("label", "file", t("File"))
      const select = element("select")
      select.append(...files.map((name, index) => option(String(index), name)))
      select.value = String(file)
      select.addEventListener("change", () => send("file", Number(select.value)))
      label.append(select)
      head.append(label)
    } else if (files.length) {
      head.append(element("p", "file", files[0]))
    }
  }

  const drawTreeNow = () => {
    const mapped = new Map()
    for (const { label, key } of model.draft.fields ?? []) {
      if (key) mapped.set(key, [...(mapped.get(key) ?? []), label])
    }
    record.replaceChildren(
      model.found.problem
        ? element("p", "problem", model.found.problem)
        : drawTree(model.found.tree ?? [], mapped),
    )
  }

  const keySelect = ({ name, label, key, likely, constant }) => {
    const select = element("select", key ? "key set" : "key")
    select.setAttribute("aria-label", label)
    select.append(option(NONE, name === "step" ? t("from the file's name") : "–"))
    if (name === "step") select.append(option(CONSTANT, t("constant")))
    if (likely.length) {
      const group = element("optgroup")
      group.label = t("likely")
      group.append(...likely.map((each) => option(each, each)))
      select.append(group)
    }
    const rest = element("optgroup")
    rest.label = t("all keys")
    for (const [each, kind] of model.found.keys ?? []) {
      if (!likely.includes(each)) rest.append(option(each, `${each} · ${kind}`))
    }
    select.append(rest)
    select.value = constant !== null ? CONSTANT : key
    select.addEventListener("change", () => {
      if (select.value === CONSTANT) send("step", 0)
      else send("field", name, select.value)
    })
    return select
  }

  const drawFields = () => {
    const { fields = [], more = [] } = model.draft
    const focused = form.getRootNode().activeElement?.dataset?.field
    form.replaceChildren()
    for (const field of fields) {
      const row = element("div", `field${field.key || field.constant !== null ? "" : " off"}`)
      row.dataset.name = field.name
      const name = element("span", "name", field.label)
      name.title = field.help
      const place = element("div", "place")
      const select = keySelect(field)
      select.dataset.field = field.name
      place.append(select)
      if (field.constant !== null) {
        const number = element("input")
        Object.assign(number, { type: "number", step: 1, value: field.constant })
        number.setAttribute("aria-label", t("Step of all samples"))
        number.addEventListener("change", () => {
          if (number.value && number.checkValidity()) send("step", Number(number.value))
        })
        place.append(number)
      }
      const sure = element("span", `sure ${field.level}`, field.sure)
      const reason = element("p", "reason", field.reason)
      row.append(name, place, sure, reason)
      form.append(row)
    }
    if (more.length) {
      const add = element("select", "add")
      add.setAttribute("aria-label", t("Add a field"))
      add.append(option(NONE, t("Add a field …")), ...more.map(([name, label]) => option(name, label)))
      add.addEventListener("change", () => send("add", add.value))
      form.append(add)
    }
    if (focused) form.querySelector(`[data-field="${CSS.escape(focused)}"]`)?.focus()
  }

  const drawPreview = () => {
    const { samples = [], problem, reading } = model.draft
    preview.replaceChildren(...samples.map(drawSample))
    if (problem) preview.append(element("p", "problem", problem))
    preview.classList.toggle("reading", reading === true)
  }

  const command = (text, title) => {
    const box = element("div", "command")
    box.append(element("pre", "", text))
    const taken = button("copy", t("copy"), title, async () => {
      await copy(text)
      taken.textContent = t("copied")
    })
    box.append(taken)
    return box
  }

  const drawNext = () => {
    const { opens, saves, option: line, toml, said, failure, closes, fields = [] } = model.draft
    const row = element("div", "row")
    const open = button("open", t("Open"), t("Show the samples, until the server ends"), () => send("open"))
    open.disabled = !opens
    const store = button("save", t("Save and open"), t("Write rlpanel.toml into the folder"), () =>
      send("save"),
    )
    store.disabled = !opens
    row.append(open)
    if (saves) row.append(store)
    if (closes) row.append(button("close", t("Back"), t("Leave everything as it is"), () => send("close")))
    if (failure) row.append(element("span", "problem", failure))
    else if (said) row.append(element("span", "said", said))
    next.replaceChildren(row)
    if (!fields.length) return
    const texts = element("details", "texts")
    texts.open = next.dataset.open === "yes" || !!failure
    texts.addEventListener("toggle", () => {
      next.dataset.open = texts.open ? "yes" : ""
    })
    texts.append(element("summary", "", t("As a command or a file")))
    if (line) texts.append(command(line, t("Copy the command")))
    texts.append(element("p", "note", t("Or as rlpanel.toml in the folder:")))
    texts.append(command(toml, t("Copy the file's text")))
    next.append(texts)
  }

  const drawDraft = () => {
    // An older answer would undo what was chosen since.
    if ((model.draft.answered ?? 0) < sent) return
    drawTreeNow()
    drawFields()
    drawPreview()
    drawNext()
  }

  model.on("found", () => {
    drawHead()
    drawTreeNow()
    drawDraft()
  })
  model.on("draft", drawDraft)
  drawHead()
  drawDraft()
  return page
}
