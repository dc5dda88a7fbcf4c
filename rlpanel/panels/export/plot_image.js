// A plot as a picture that stands alone: on the card's colour, under its title. Words become text nodes, never markup.
const SVG = "http://www.w3.org/2000/svg"
const EDGE = 12, LINE = 16
/** Letters of a text in a picture: a name out of a log may be of any length. */
const MOST = 300
/** Pixels of a PNG for each of the screen's, so that it can be read on a slide. */
const SCALE = 3

function shape(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag)
  for (const [name, value] of Object.entries(attributes)) { node.setAttribute(name, value) }
  if (text !== undefined) { node.textContent = text }
  return node
}

const ruler = document.createElement("canvas").getContext("2d")
function wide(text, font) {
  ruler.font = font
  return ruler.measureText(text).width
}

function cut(text, font, room) {
  if (wide(text, font) <= room) { return text }
  const letters = [...text.slice(0, MOST)]
  while (letters.length && wide(`${letters.join("")}…`, font) > room) { letters.pop() }
  return `${letters.join("")}…`
}

// Lines no wider than the room, broken between words; some cards are narrow.
function broken(text, font, room) {
  const lines = [""]
  for (const word of text.slice(0, MOST).split(" ")) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word
    if (!lines.at(-1) || wide(longer, font) <= room) { lines[lines.length - 1] = longer } else { lines.push(word) }
  }
  return lines
}

function draw(view, { title, words, legend, look }) {
  const { width, height } = view.bbox
  const room = width - 2 * EDGE
  const root = shape("svg", { "font-family": look.font })
  const font = (size, weight) => `${weight} ${size}px ${look.font}`
  const write = (text, x, y, color, size, weight = 400) => {
    const said = cut(text, font(size, weight), width - EDGE - x)
    root.append(shape("text", { x, y, fill: color, "font-size": size, "font-weight": weight }, said))
    return wide(said, font(size, weight))
  }
  const ground = shape("rect", { fill: look.surface })
  root.append(ground)
  let top = EDGE + 10 - LINE
  for (const line of broken(title, font(13, 600), room)) { write(line, EDGE, top += LINE, look.text, 13, 600) }
  for (const line of broken(words, font(11, 400), room)) { write(line, EDGE, top += LINE, look.muted, 11) }
  let left = width
  for (const [text, color] of legend) {
    if (left + 14 + wide(text, font(11, 400)) > width - EDGE) { left = EDGE; top += LINE }
    root.append(shape("rect", { x: left, y: top - 8, width: 9, height: 9, rx: 2, fill: color }))
    left += 14
    left += write(text, left, top, look.muted, 11) + EDGE
  }
  top += 6
  const plot = view.export("svg").canvas
  for (const [name, value] of Object.entries({ x: 0, y: top, width, height })) { plot.setAttribute(name, value) }
  // Its labels name fewer fonts than the words above them, and would be set in others.
  for (const label of plot.querySelectorAll("text")) { label.setAttribute("font-family", look.font) }
  root.append(plot)
  const size = { width, height: top + height + 4 }
  for (const [name, value] of Object.entries(size)) { root.setAttribute(name, value); ground.setAttribute(name, value) }
  root.setAttribute("viewBox", `0 0 ${size.width} ${size.height}`)
  return { text: new XMLSerializer().serializeToString(root), ...size }
}

async function raster({ text, width, height }) {
  const image = new Image(), url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }))
  image.src = url
  await image.decode()
  const canvas = Object.assign(element("canvas"), { width: width * SCALE, height: height * SCALE })
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height)
  URL.revokeObjectURL(url)
  return new Promise((done) => { canvas.toBlob(done, "image/png") })
}
