// The grid's head: number of samples as HTML that the server has escaped, the search, and the button for new samples.
export function render({ model }) {
  const row = element("div", "row")
  const count = element("div")
  count.style.display = "contents"
  const field = element("div", "rl-search")
  const input = element("input")
  Object.assign(input, {
    placeholder: t("search prompts and responses  /"),
    ariaLabel: t("Search prompts and responses"),
  })
  input.addEventListener("change", () => {
    if (model.search !== input.value) model.search = input.value
  })
  field.append(input)
  const load = button("rl-new", "", "", () => model.send_msg("load"))
  row.append(count, field, load)
  const show = () => {
    count.innerHTML = model.html
    load.textContent = model.new
    load.hidden = !model.new
  }
  // Not together with the count: it changes at each step, and would undo what the viewer is typing.
  const write = () => {
    if (input.value !== model.search) input.value = model.search
  }
  model.on(["html", "new"], show)
  model.on("search", write)
  show()
  write()
  return row
}
