// Shows HTML that the server has escaped.
export function render({ model }) {
  const box = document.createElement("div")
  const draw = () => {
    box.innerHTML = model.html
  }
  model.on("html", draw)
  draw()
  return box
}
