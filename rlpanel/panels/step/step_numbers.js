// The numbers of the step; a click shows the curve. Names of columns are set as text, never as HTML.
function createNumber(model, { column, label, value, unit }) {
  const pair = element("div")
  const description = element("dd")
  const link = element("button", "", value)
  pair.title = model.tips[column] ?? ""
  Object.assign(link, { type: "button", title: t("Show the curve") })
  link.setAttribute("aria-label", t("Show the curve of {label}", { label }))
  pair.addEventListener("click", () => model.send_msg(column))
  description.append(link, " ", element("span", "delta", unit))
  pair.append(element("dt", "", label), description)
  return pair
}

export function render({ model }) {
  const list = element("dl")
  const draw = () => list.replaceChildren(...model.numbers.map((shown) => createNumber(model, shown)))
  model.on(["numbers", "tips"], draw)
  draw()
  return list
}
