// Draws bars in layers as SVG, with axis labels and a tooltip. Colours are CSS variables, so that a change of
// the theme needs no new drawing.

/** Pixels from which on a drag is a brush and no click. */
const BRUSH_PIXELS = 4
/** @type {[number, string][]} */
const UNITS = [
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
]
const MARGIN = { left: 34, right: 8, top: 5, bottom: 18 }

/** Return round numbers within a range, about `count` of them, and the number of decimals to write them with. */
function ticks([low, high], count, whole = false) {
  const rough = (high - low) / count || 1
  const power = 10 ** Math.floor(Math.log10(rough))
  const least = whole ? 1 : 0
  const step = Math.max(least, power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999))
  const first = Math.ceil(low / step - 1e-9)
  const number = Math.floor(high / step + 1e-9) - first + 1
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9))
  // Number of zeros at the end of the step: 2 for 100 and 500.
  const trailing = Math.max(0, Math.floor(Math.log10(step) + 1e-9))
  return { values: Array.from({ length: number }, (_, index) => (first + index) * step), decimals, trailing }
}

function label(value, decimals, trailing = 0) {
  const size = Math.abs(value)
  // Thousands and millions in few characters, and in as many digits as tell a label from its neighbours.
  const [unit, name] = UNITS.find(([least]) => size >= 100 * least) ?? [1, ""]
  const more = Math.max(0, Math.round(Math.log10(unit)) - trailing)
  const text = unit > 1 ? `${Number((size / unit).toFixed(more))}${name}` : size.toFixed(decimals)
  return value < 0 && Number(text) !== 0 ? `−${text}` : text
}

/** Write a number with at most four significant digits; texts stay as they are. */
function short(value) {
  if (typeof value === "string") return value
  return value === null || Number.isNaN(value) ? "–" : String(Number(value.toPrecision(4))).replace("-", "−")
}

/**
 * Create a plot that fills the width of its element.
 *
 * `plot` has the ranges `x` and `y`, `labels` (whether to label the x axis), `lone` (its only label), `layers` with `color`, `alpha`,
 * `left`, `right`, `bottom` and `top`, `counts` (whether heights are whole numbers), and `tips`: `left` and `right` of areas, and `rows` of label and values.
 * `pick` gets the x coordinate of a click, and `brush` those where a drag begins and ends.
 */
function barPlot(height, pick, brush) {
  const node = element("div", "bars"),
    tip = element("div", "tip")
  node.style.height = `${height}px`
  tip.hidden = true
  let plot = null,
    marker = null,
    svg = null,
    width = 0

  const room = () => Math.max(1, width - MARGIN.left - MARGIN.right)
  const across = (x) => MARGIN.left + ((x - plot.x[0]) / (plot.x[1] - plot.x[0])) * room()
  const bottom = () => (plot.labels ? MARGIN.bottom : 6)
  const down = (y) => {
    const share = (y - plot.y[0]) / (plot.y[1] - plot.y[0])
    return height - bottom() - share * (height - bottom() - MARGIN.top)
  }

  const path = ({ left, right, bottom: low, top }) =>
    left
      .map((start, index) => {
        if (low[index] === null || top[index] === null || low[index] === top[index]) return ""
        const [x0, x1] = [across(start), across(right[index])],
          [y0, y1] = [down(top[index]), down(low[index])]
        // A narrow gap between bars, unless they are too narrow for it.
        const gap = x1 - x0 > 3 ? 0.35 : 0
        return `M${(x0 + gap).toFixed(1)} ${y0.toFixed(1)}H${(x1 - gap).toFixed(1)}V${y1.toFixed(1)}H${(x0 + gap).toFixed(1)}Z`
      })
      .join("")

  const draw = () => {
    width = node.clientWidth
    if (!plot?.layers || !width) return
    const drawn = svgElement("svg", { width, height, "aria-hidden": "true" })
    const y = ticks(plot.y, 3, plot.counts),
      x = ticks(plot.x, 4),
      lone = plot.lone ?? null
    for (const value of y.values) {
      drawn.append(
        svgElement("path", {
          class: "grid",
          d: `M${MARGIN.left} ${down(value).toFixed(1)}H${width - MARGIN.right}`,
        }),
      )
      drawn.append(
        svgElement(
          "text",
          { x: MARGIN.left - 4, y: down(value) + 3.5, "text-anchor": "end" },
          label(value, y.decimals, y.trailing),
        ),
      )
    }
    for (const value of !plot.labels ? [] : lone === null ? x.values : [lone]) {
      drawn.append(
        svgElement(
          "text",
          { x: across(value), y: height - 4, "text-anchor": "middle" },
          lone === null ? label(value, x.decimals, x.trailing) : short(lone),
        ),
      )
    }
    for (const layer of plot.layers) {
      const fill = `fill: var(--rl-${layer.color}); fill-opacity: ${layer.alpha}`
      drawn.append(svgElement("path", { style: fill, d: path(layer) }))
    }
    if (marker !== null) {
      drawn.append(
        svgElement("path", {
          class: "marker",
          d: `M${across(marker).toFixed(1)} ${MARGIN.top}V${height - bottom()}`,
        }),
      )
    }
    if (svg) {
      svg.replaceWith(drawn)
    } else {
      node.append(drawn, tip)
    }
    svg = drawn
  }

  const xOf = (event) => {
    const share = (event.clientX - node.getBoundingClientRect().left - MARGIN.left) / room()
    return plot.x[0] + share * (plot.x[1] - plot.x[0])
  }
  const showTip = (event) => {
    const x = plot?.tips ? xOf(event) : NaN
    const index =
      plot?.tips?.left.findIndex((left, position) => left <= x && x < plot.tips.right[position]) ?? -1
    tip.hidden = index < 0
    if (index < 0) return
    tip.replaceChildren(
      ...plot.tips.rows.map(([name, values]) => {
        const row = element("div")
        row.append(...(name ? [element("span", "muted", name)] : []), element("b", "", short(values[index])))
        return row
      }),
    )
    const left = event.clientX - node.getBoundingClientRect().left
    tip.style.left = `${Math.max(0, Math.min(left + 12, width - tip.offsetWidth - 4))}px`
  }
  node.addEventListener("pointermove", showTip)
  node.addEventListener("pointerleave", () => {
    tip.hidden = true
  })
  let drag = null // where the pointer went down, and the strip that it draws
  if (brush) {
    node.addEventListener("pointerdown", (event) => {
      if (event.button || !plot?.layers) return
      drag = { from: event.clientX, strip: null }
      node.setPointerCapture(event.pointerId)
      event.preventDefault() // no text is selected
    })
    node.addEventListener("pointermove", (event) => {
      if (!drag || (!drag.strip && Math.abs(event.clientX - drag.from) < BRUSH_PIXELS)) return
      drag.strip ??= node.appendChild(element("div", "brush"))
      const left = node.getBoundingClientRect().left
      const [start, end] = [drag.from - left, event.clientX - left].sort((a, b) => a - b)
      drag.strip.style.left = `${Math.max(MARGIN.left, start)}px`
      drag.strip.style.width = `${Math.min(width - MARGIN.right, end) - Math.max(MARGIN.left, start)}px`
    })
    const end = (event) => {
      drag?.strip?.remove()
      if (drag?.strip && event.type === "pointerup") {
        const ends = [xOf({ clientX: drag.from }), xOf(event)].sort((a, b) => a - b)
        brush(...ends)
        node.dataset.brushed = "true" // the click that follows is a part of the drag
      }
      drag = null
    }
    node.addEventListener("pointerup", end)
    node.addEventListener("pointercancel", end)
  }
  if (pick) {
    node.classList.add("picks")
    node.addEventListener("click", (event) => {
      const brushed = node.dataset.brushed
      delete node.dataset.brushed
      if (plot?.layers && !brushed) pick(xOf(event))
    })
  }
  new ResizeObserver(() => {
    if (node.clientWidth !== width) draw()
  }).observe(node)

  return {
    node,
    show(next, at = null) {
      plot = next
      marker = at
      draw()
    },
    /** Return the plot with the interface of a Bokeh figure's view, for `plot_image.js`. */
    view: () => ({ bbox: { width, height }, export: () => ({ canvas: withColors(svg) }) }),
  }
}

/** Copy an SVG and write the colours of the page into it. */
function withColors(svg) {
  const copy = svg.cloneNode(true)
  const originals = [svg, ...svg.querySelectorAll("*")],
    copies = [copy, ...copy.querySelectorAll("*")]
  for (const [index, original] of originals.entries()) {
    const style = getComputedStyle(original)
    for (const name of ["class", "style", "aria-hidden"]) copies[index].removeAttribute(name)
    for (const name of ["fill", "fill-opacity", "stroke", "font-size"]) {
      copies[index].setAttribute(name, style.getPropertyValue(name))
    }
  }
  return copy
}
