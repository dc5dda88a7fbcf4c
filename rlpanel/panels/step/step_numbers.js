// The numbers of the step; a click shows the curve. Names of columns are set as text, never as HTML.
function createNumber(model, { column, label, value, unit }) {
  const number = button("number", "", model.tips[column] || t("Show the curve"), () => model.send_msg(column))
  number.append(element("span", "label", label), " ", element("b", "", value))
  if (unit) number.append(" ", element("span", "unit", unit))
  return number
}

export function render({ model }) {
  const list = element("div", "numbers")
  const draw = () => list.replaceChildren(...model.numbers.map((shown) => createNumber(model, shown)))
  model.on(["numbers", "tips"], draw)
  draw()
  return list
}
