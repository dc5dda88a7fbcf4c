// What stands around the grid of prompts: legend and category above it, waste and curriculum file below.

function field(label, options, value, choose) {
  const root = element("label", "field", label)
  const select = element("select")
  select.append(
    ...options.map(([key, text]) => {
      const option = element("option", "", text)
      option.value = key
      return option
    }),
  )
  select.value = value
  select.addEventListener("change", () => choose(select.value))
  root.append(select)
  return root
}

export function render({ model }) {
  const root = element("div", "parts")
  const send = (action) => (value) => model.send_msg([action, value ?? 0])
  let parts = []
  const show = () => {
    const {
      legend,
      categories,
      category,
      labels = {},
      zoomed,
      facts = [],
      weights,
      weight,
      effect,
    } = model.data
    const focused = root.getRootNode().activeElement?.closest("label")?.textContent
    const rows = []
    if (legend) {
      const row = element("div", "row")
      const scale = element("span", "scale")
      const bar = element("i")
      bar.style.background = `linear-gradient(to right, ${legend.colors.join(", ")})`
      scale.append(legend.low, bar, legend.high)
      row.append(scale)
      if (categories?.length > 1) row.append(field(labels.category, categories, category, send("category")))
      if (zoomed) row.append(button("plain", labels.all, "", () => send("all")()))
      rows.push(row)
    }
    if (facts.length) {
      const list = element("div", "facts")
      list.append(...facts.map((text) => element("span", "", text)))
      rows.push(list)
    }
    if (weights) {
      const row = element("div", "row")
      row.append(
        field(labels.weight, weights, weight, send("weight")),
        button("plain", labels.download, labels.format, () => send("download")()),
        element("span", "effect", effect),
      )
      rows.push(row)
    }
    root.replaceChildren(...rows)
    if (focused)
      [...root.querySelectorAll("label")]
        .find((each) => each.textContent === focused)
        ?.querySelector("select")
        .focus()
  }
  model.on("msg:custom", ({ piece, name }) => {
    if (piece !== undefined) parts.push(piece)
    else {
      if (name) save(parts, name, "application/x-ndjson")
      parts = [] // the file is saved, or a new one begins
    }
  })
  model.on("data", show)
  show()
  send("ready")()
  return root
}
