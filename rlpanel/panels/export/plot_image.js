// Makes a self-contained picture of a plot, with title, subtitle and legend above it on the card's background.
// Texts become text nodes, never markup.
const EDGE = 12,
  LINE = 16
/** Maximum characters of a text in a picture: names from a log may have any length. */
const MAX_CHARS = 300
/** Pixels of the PNG per pixel on screen, so that it is readable on a slide. */
const SCALE = 3

const ruler = document.createElement("canvas").getContext("2d")
function textWidth(text, font) {
  ruler.font = font
  return ruler.measureText(text).width
}

function truncate(text, font, maxWidth) {
  if (textWidth(text, font) <= maxWidth) return text
  const letters = [...text.slice(0, MAX_CHARS)]
  while (letters.length && textWidth(`${letters.join("")}…`, font) > maxWidth) letters.pop()
  return `${letters.join("")}…`
}

// Wrap a text between words into lines no wider than the given width; some cards are narrow.
function wrap(text, font, maxWidth) {
  const lines = [""]
  for (const word of text.slice(0, MAX_CHARS).split(" ")) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word
    if (!lines.at(-1) || textWidth(longer, font) <= maxWidth) {
      lines[lines.length - 1] = longer
    } else {
      lines.push(word)
    }
  }
  return lines
}

function draw(view, { title, words, legend, look }) {
  const { width, height } = view.bbox
  const room = width - 2 * EDGE
  const root = svgElement("svg", { "font-family": look.font })
  const font = (size, weight) => `${weight} ${size}px ${look.font}`
  const write = (text, x, y, color, size, weight = 400) => {
    const visible = truncate(text, font(size, weight), width - EDGE - x)
    root.append(svgElement("text", { x, y, fill: color, "font-size": size, "font-weight": weight }, visible))
    return textWidth(visible, font(size, weight))
  }
  const background = svgElement("rect", { fill: look.surface })
  root.append(background)
  let top = EDGE + 10 - LINE
  for (const line of wrap(title, font(13, 600), room)) {
    top += LINE
    write(line, EDGE, top, look.text, 13, 600)
  }
  for (const line of wrap(words, font(11, 400), room)) {
    top += LINE
    write(line, EDGE, top, look.muted, 11)
  }
  let left = width
  for (const [text, color] of legend) {
    if (left + 14 + textWidth(text, font(11, 400)) > width - EDGE) {
      left = EDGE
      top += LINE
    }
    root.append(svgElement("rect", { x: left, y: top - 8, width: 9, height: 9, rx: 2, fill: color }))
    left += 14
    left += write(text, left, top, look.muted, 11) + EDGE
  }
  top += 6
  const plot = view.export("svg").canvas // an SVG element
  for (const [name, value] of Object.entries({ x: 0, y: top, width, height })) plot.setAttribute(name, value)
  // The plot's labels name fewer fonts than the title; without this they could be drawn in another font.
  for (const label of plot.querySelectorAll("text")) label.setAttribute("font-family", look.font)
  root.append(plot)
  const size = { width, height: top + height + 4 }
  for (const [name, value] of Object.entries(size)) {
    root.setAttribute(name, value)
    background.setAttribute(name, value)
  }
  root.setAttribute("viewBox", `0 0 ${size.width} ${size.height}`)
  return { text: new XMLSerializer().serializeToString(root), ...size }
}

async function raster({ text, width, height }) {
  const image = new Image(),
    url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }))
  image.src = url
  await image.decode()
  const canvas = Object.assign(element("canvas"), { width: width * SCALE, height: height * SCALE })
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height)
  URL.revokeObjectURL(url)
  return new Promise((done) => {
    canvas.toBlob(done, "image/png")
  })
}
