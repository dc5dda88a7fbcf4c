// Draws groups of fields. A new value of the server replaces only the value of a field, and never while the
// user edits it or before the server has answered the user's newest change. New options or fields draw the form
// again, with the same groups open. Facts change on their own.

const MANY = 8 // with more choices there is a field that filters them

function select(field, send) {
  const node = element("select")
  for (const [value, label] of field.options) {
    const option = element("option", "", label)
    option.value = value
    node.append(option)
  }
  node.addEventListener("change", () => send(node.value))
  return {
    node,
    show: (value) => {
      node.value = value ?? ""
    },
  }
}

function toggle(_field, send) {
  const node = element("input")
  node.type = "checkbox"
  node.setAttribute("role", "switch")
  node.addEventListener("change", () => send(node.checked))
  return {
    node,
    show: (value) => {
      node.checked = value
    },
  }
}

function range(field, send) {
  const node = element("span", "range")
  const input = element("input")
  const label = element("output")
  Object.assign(input, { type: "range", min: field.low, max: field.high, step: field.step })
  const write = () => {
    label.textContent = String(Number(Number(input.value).toPrecision(3)))
  }
  input.addEventListener("input", write)
  input.addEventListener("change", () => send(Number(input.value)))
  node.append(input, label)
  return {
    node,
    input,
    show: (value) => {
      input.value = value
      write()
    },
  }
}

function integer(field, send) {
  const node = element("input")
  Object.assign(node, { type: "number", min: field.low, max: field.high, step: field.step })
  node.addEventListener("change", () => {
    if (node.checkValidity() && node.value) send(Number(node.value))
  })
  return {
    node,
    show: (value) => {
      node.value = value
    },
  }
}

function text(_field, send) {
  const node = element("input")
  node.type = "text"
  node.addEventListener("change", () => send(node.value))
  return {
    node,
    show: (value) => {
      node.value = value
    },
  }
}

function fact() {
  const node = element("b")
  return {
    node,
    show: (value) => {
      node.textContent = value
    },
  }
}

function choices(field, send) {
  const node = element("div", "choices")
  const filter = element("input")
  Object.assign(filter, { type: "text", placeholder: t("find") })
  filter.setAttribute("aria-label", t("find in {label}", { label: field.label }))
  const list = element("div", "list")
  let group = null
  const boxes = field.options.map(([value, label, of = "", meaning = ""]) => {
    if (of && of !== group) list.append(element("div", "caption", of))
    group = of
    const row = element("label", "choice")
    row.dataset.words = `${label} ${of} ${meaning}`.toLowerCase()
    const box = element("input")
    Object.assign(box, { type: "checkbox", value })
    row.append(box, element("span", "", label))
    row.title = [label, meaning].filter(Boolean).join("\n")
    list.append(row)
    return box
  })
  let chosen = []
  const limit = () => {
    for (const box of boxes) box.disabled = !box.checked && chosen.length >= field.most
  }
  const show = (value) => {
    chosen = [...value]
    for (const box of boxes) box.checked = chosen.includes(box.value)
    limit()
  }
  list.addEventListener("change", ({ target }) => {
    chosen = target.checked ? [...chosen, target.value] : chosen.filter((each) => each !== target.value)
    limit()
    send(chosen)
  })
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(" ")
    for (const row of list.querySelectorAll(".choice")) {
      row.hidden = !words.every((word) => row.dataset.words.includes(word))
    }
    // A heading is shown as long as one of its choices is.
    let heading = null
    for (const row of list.children) {
      if (row.className === "caption") {
        heading = row
        heading.hidden = true
      } else if (heading && !row.hidden) {
        heading.hidden = false
      }
    }
  })
  if (field.options.length > MANY) node.append(filter)
  node.append(list)
  return { node, show, group: true }
}

const KINDS = { select, switch: toggle, range, integer, text, fact, choices }

// The caption is a label of its own: a label around a select would be named after all options, too.
function caption(field, { group, node, input = node }) {
  const label = element(group ? "span" : "label", "label", field.label)
  if (!group) {
    input.id = label.htmlFor = `field-${field.name}`
  }
  return label
}

export function render({ model }) {
  const form = element("div", "groups")
  const open = new Set()
  let fields = new Map()
  let helps = new Map()
  let signature = ""
  let changes = model.answered
  const unanswered = new Map() // name of a field → number and value of its newest change

  const send = (name, value) => {
    changes += 1
    unanswered.set(name, [changes, value])
    model.send_msg([name, value, changes])
  }

  const draw = () => {
    const plain = JSON.stringify(model.groups, (key, value) => (key === "value" ? undefined : value))
    if (plain !== signature) {
      build()
      signature = plain
    }
    for (const [name, [number]] of unanswered) {
      if (number <= model.answered) unanswered.delete(name)
    }
    for (const { fields: each } of model.groups) {
      for (const { name, value, kind } of each) {
        if (kind === "fact") continue
        const { node, show } = fields.get(name)
        if (
          !node.contains(node.getRootNode().activeElement) ||
          node.type === "checkbox" ||
          node.tagName === "SELECT" ||
          node.className === "choices"
        ) {
          show(unanswered.has(name) ? unanswered.get(name)[1] : value)
        }
      }
    }
    state()
  }

  const state = () => {
    for (const [name, [value, help]] of Object.entries(model.facts)) {
      fields.get(name)?.show(value)
      const text = helps.get(name)
      if (text) text.textContent = help
    }
  }

  const build = () => {
    form.replaceChildren()
    fields = new Map()
    helps = new Map()
    for (const group of model.groups) {
      const details = element("details", "group")
      details.open = open.has(group.title)
      details.addEventListener("toggle", () => {
        open[details.open ? "add" : "delete"](group.title)
      })
      details.append(element("summary", "caption", group.title))
      for (const field of group.fields) {
        const made = KINDS[field.kind](field, (value) => send(field.name, value))
        fields.set(field.name, made)
        const row = element("div", `field ${field.kind}`)
        row.dataset.name = field.name
        if (made.group) {
          row.setAttribute("role", "group")
          row.setAttribute("aria-label", field.label)
        }
        row.append(caption(field, made), made.node)
        details.append(row)
        if (field.kind === "fact") helps.set(field.name, element("p", "help"))
        const help = helps.get(field.name) ?? (field.help ? element("p", "help", field.help) : "")
        details.append(help)
      }
      form.append(details)
    }
  }

  model.on("groups", draw)
  model.on("answered", draw)
  model.on("facts", state)
  draw()
  return form
}
