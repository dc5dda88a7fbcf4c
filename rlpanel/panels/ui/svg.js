const SVG = "http://www.w3.org/2000/svg"

/** Create an SVG element; text becomes a text node, never markup. */
function svgElement(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag)
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value)
  if (text !== undefined) node.textContent = text
  return node
}
