// Parallel coordinates of the runs: an axis for each setting and number, a line for each run. A drag on an axis
// filters by its part, a click on it takes the filter off; with the keyboard, Enter on an axis asks for bounds.
const AXES = { width: 1000, height: 150, top: 26, bottom: 8, side: 60, letter: 6.8 }

/** Return a figure, and `draw(coordinates, ticked)`, which shows other runs. */
function axesFigure(send) {
  const box = element("div", "axes")
  box.setAttribute("role", "group")
  box.ariaLabel = t("Parallel coordinates of the runs")
  let width = AXES.width
  const x = (at, count) => (count < 2 ? width / 2 : AXES.side + ((width - 2 * AXES.side) * at) / (count - 1))
  const y = (place) => AXES.top + (1 - place) * (AXES.height - AXES.top - AXES.bottom)
  const placeOf = (event, svg) => {
    const box = svg.getBoundingClientRect()
    const from = event.clientY - box.top
    return Math.max(0, Math.min(1, 1 - (from - AXES.top) / (AXES.height - AXES.top - AXES.bottom)))
  }

  /** Return the line of a run; it has a gap where the run has no value. */
  const pathOf = (places) => {
    let path = ""
    let joined = false
    places.forEach((place, at) => {
      if (place === null) joined = false
      else {
        path += `${joined ? "L" : "M"}${x(at, places.length).toFixed(1)},${y(place).toFixed(1)}`
        joined = true
      }
    })
    return path
  }

  /** Return as much of a name as fits between two axes; without the groups of a configuration first. */
  const fitted = (name, count) => {
    const most = Math.floor((count < 2 ? width : (width - 2 * AXES.side) / (count - 1)) / AXES.letter)
    if (name.length <= most) return name
    const last = name.slice(name.lastIndexOf(".", name.length - 3) + 1)
    return last.length > most ? `${last.slice(0, most - 1)}…` : last
  }

  const axisOf = (axis, at, count, svg) => {
    const group = svgElement("g", { tabindex: 0, role: "button" })
    group.classList.add("axis")
    const name = shownText(axis.title)
    group.setAttribute("aria-label", t("Filter by {column}: drag along the axis", { column: name }))
    const left = x(at, count)
    const line = svgElement("line", { x1: left, x2: left, y1: y(0), y2: y(1) })
    const mark = svgElement("rect", { x: left - 6, width: 12, y: 0, height: 0 })
    mark.classList.add("brush")
    const wide = svgElement("rect", {
      x: left - 14,
      width: 28,
      y: AXES.top - 6,
      height: AXES.height - AXES.top,
    })
    wide.classList.add("hit")
    const title = svgElement("text", { x: left, y: 12, "text-anchor": "middle" }, fitted(name, count))
    title.classList.add("title")
    title.append(svgElement("title", {}, name))
    group.append(line, title)
    for (const [place, text] of axis.ticks) {
      group.append(svgElement("text", { x: left + 5, y: y(place) + 4 }, shownText(text)))
    }
    group.append(mark, wide)
    let begin = null
    wide.addEventListener("pointerdown", (event) => {
      begin = placeOf(event, svg)
      wide.setPointerCapture(event.pointerId)
      event.preventDefault()
    })
    wide.addEventListener("pointermove", (event) => {
      if (begin === null) return
      const now = placeOf(event, svg)
      mark.setAttribute("y", y(Math.max(begin, now)))
      mark.setAttribute("height", Math.abs(y(begin) - y(now)))
    })
    wide.addEventListener("pointerup", (event) => {
      if (begin === null) return
      const [low, high] = [begin, placeOf(event, svg)].sort((one, other) => one - other)
      begin = null
      if (high - low < 0.02) send({ unbrush: axis.name })
      else send({ brush: axis.name, low, high })
    })
    // The upper half, the lower half, and all, without a pointer.
    group.addEventListener("keydown", (event) => {
      const parts = { ArrowUp: [0.5, 1], ArrowDown: [0, 0.5] }
      if (event.key in parts) send({ brush: axis.name, low: parts[event.key][0], high: parts[event.key][1] })
      else if (event.key === "Escape" || event.key === "Backspace") send({ unbrush: axis.name })
      else return
      event.preventDefault()
      event.stopPropagation()
    })
    return group
  }

  const draw = (coordinates, ticked, colors) => {
    const { axes = [], lines = [] } = coordinates
    box.hidden = !axes.length
    width = Math.max(AXES.side * 2 + 76 * (axes.length - 1), box.clientWidth || AXES.width)
    const svg = svgElement("svg", { width, height: AXES.height })
    const groups = { pale: "", shown: "" }
    const chosen = []
    for (const [name, places, isShown] of lines) {
      const at = ticked.indexOf(name)
      if (at >= 0) chosen.push([at, pathOf(places)])
      else groups[isShown ? "shown" : "pale"] += pathOf(places)
    }
    for (const [kind, path] of Object.entries(groups)) {
      const all = svgElement("path", { d: path })
      all.classList.add(kind)
      svg.append(all)
    }
    for (const [at, path] of chosen) {
      const one = svgElement("path", { d: path })
      one.classList.add("ticked")
      one.style.stroke = `var(${colors[at % colors.length]})`
      svg.append(one)
    }
    for (const [at, axis] of axes.entries()) svg.append(axisOf(axis, at, axes.length, svg))
    const focused = box.getRootNode().activeElement?.closest?.(".axis")
    const place = focused ? [...box.querySelectorAll(".axis")].indexOf(focused) : -1
    box.replaceChildren(svg)
    if (place >= 0) box.querySelectorAll(".axis")[place]?.focus()
  }
  return { box, draw }
}
