// Moves the line between grid and sample: drag, arrow keys, Home and End; a double click returns to the usual
// place. A CSS variable of the page carries the grid's share, and the browser remembers it.
const STORED = "rlpanel-split"
const LEAST = 20
const MOST = 80

export function render({ model, el }) {
  const line = element("div", "line")
  Object.assign(line, { tabIndex: 0, title: t("Drag for more room; double click for the usual place") })
  line.setAttribute("role", "separator")
  line.setAttribute("aria-orientation", "vertical")
  line.setAttribute("aria-label", t("Width of the table of samples"))
  for (const [name, value] of [
    ["aria-valuemin", LEAST],
    ["aria-valuemax", MOST],
  ])
    line.setAttribute(name, value)

  /** Element of the splitter beside the columns, and the page that carries the variable. */
  const place = () => line.getRootNode().host ?? el
  const page = () => outermostHost(el) ?? place()
  const sides = () => [place().previousElementSibling, place().nextElementSibling]
  const share = () => {
    const [left, right] = sides().map((side) => side?.getBoundingClientRect().width ?? 0)
    return left + right ? Math.round((1000 * left) / (left + right)) / 10 : 50
  }
  const say = () => line.setAttribute("aria-valuenow", String(Math.round(share())))
  const store = (percent) => {
    try {
      if (percent === null) localStorage.removeItem(STORED)
      else localStorage.setItem(STORED, String(percent))
    } catch {
      // A browser that stores nothing keeps the share until the page is left.
    }
  }
  const show = (percent) => {
    const style = page().style
    if (percent === null) {
      style.removeProperty("--rl-split")
      style.removeProperty("--rl-rest")
    } else {
      style.setProperty("--rl-split", String(percent))
      style.setProperty("--rl-rest", String(100 - percent))
    }
    window.dispatchEvent(new Event("resize")) // Bokeh measures its plots again
    requestAnimationFrame(say)
  }
  const move = (percent) => {
    const kept = Math.min(MOST, Math.max(LEAST, percent))
    show(kept)
    store(kept)
  }

  line.addEventListener("pointerdown", (event) => {
    event.preventDefault()
    line.focus()
    line.setPointerCapture(event.pointerId)
  })
  line.addEventListener("pointermove", (event) => {
    if (!line.hasPointerCapture(event.pointerId)) return
    const [left, right] = sides().map((side) => side.getBoundingClientRect())
    move((100 * (event.clientX - left.left)) / (right.right - left.left))
  })
  line.addEventListener("dblclick", () => {
    show(null)
    store(null)
  })
  line.addEventListener("keydown", (event) => {
    const to = { ArrowLeft: share() - 4, ArrowRight: share() + 4, Home: LEAST, End: MOST }[event.key]
    if (to === undefined) return
    event.preventDefault()
    event.stopPropagation()
    move(to)
  })
  let stored = null
  try {
    stored = Number.parseFloat(localStorage.getItem(STORED))
  } catch {
    stored = null
  }
  model.on("after_render", () => {
    if (stored >= LEAST && stored <= MOST) show(stored)
    else requestAnimationFrame(say)
  })
  return line
}
