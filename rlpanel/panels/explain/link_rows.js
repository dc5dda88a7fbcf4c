// Rows with a bar, a text and numbers. Each row is a button, so that Tab reaches it; texts are set as text only.
function barOf(row) {
  const track = element("span", "track")
  const bar = element("i", row.bar < 0 ? "less" : "more")
  const size = Math.min(Math.abs(row.bar), 1) * (row.signed ? 50 : 100)
  bar.style.width = `${size}%`
  bar.style.left = row.signed ? `${row.bar < 0 ? 50 - size : 50}%` : "0"
  track.append(bar)
  if (row.error) {
    // The standard error at the end of the bar, within the track.
    const place = (value) => (row.signed ? 50 + 50 * value : 100 * value)
    const [from, to] = [row.bar - row.error, row.bar + row.error].map((value) =>
      Math.min(Math.max(place(value), 0), 100),
    )
    const line = element("span", "whisker")
    line.style.left = `${from}%`
    line.style.width = `${to - from}%`
    track.append(line)
  }
  if (row.signed) track.classList.add("signed")
  return track
}

function lineOf(model, row) {
  const line = element("button", "row")
  Object.assign(line, { type: "button", title: row.tip })
  line.dataset.key = row.key
  if (row.key === model.chosen) line.classList.add("chosen")
  const label = element("span", "label")
  if (row.kind) label.append(element("em", "", row.kind))
  label.append(element("span", "", row.label))
  const numbers = row.numbers.map((text) => element("span", "figure", text))
  line.append(barOf(row), element("b", "", row.value), label, ...numbers)
  line.addEventListener("click", () => model.send_msg(row.key))
  return line
}

export function render({ model }) {
  const box = element("div", "rows")
  const draw = () => {
    const lines = model.rows.map((row) =>
      "heading" in row ? element("h4", "", row.heading) : lineOf(model, row),
    )
    const head = element("div", "row titles")
    head.append(...model.titles.map((title, at) => element("span", at > 2 ? "figure" : "", title)))
    box.style.setProperty("--numbers", Math.max(model.titles.length - 3, 0))
    box.replaceChildren(...(model.rows.length && model.titles.length ? [head] : []), ...lines)
  }
  model.on(["rows", "titles"], draw)
  model.on("chosen", () => {
    for (const line of box.querySelectorAll("button")) {
      line.classList.toggle("chosen", line.dataset.key === model.chosen)
    }
  })
  draw()
  model.drawn = true
  return box
}
