// Shows and hides the side panel. A CSS variable of the page carries the choice, because the panel's own
// style depends on the page's width: closed by default on a narrow page, open on a wide one.

/** Events that follow a press; without them no view below takes it for a click. */
const AFTER_PRESS = ["pointerup", "mousedown", "mouseup", "touchstart", "touchend", "click"]

export function render({ model, el }) {
  const box = element("div", "brand")
  const toggle = element("button", "icon", "☰")
  Object.assign(toggle, { type: "button", title: t("Show or hide the runs") })
  toggle.setAttribute("aria-label", t("Show or hide the runs"))
  const show = (open) => {
    outermostHost(el).style.setProperty("--rl-side", open ? "flex" : "none")
    toggle.setAttribute("aria-expanded", String(open))
    window.dispatchEvent(new Event("resize")) // Bokeh measures its plots again
  }
  const findSide = () => {
    const page = outermostHost(el)
    return page && findDeep(page.shadowRoot, ".rl-side")
  }
  const styleOfSide = () => {
    const side = findSide()
    return side && getComputedStyle(side)
  }
  toggle.addEventListener("click", () => {
    const style = styleOfSide()
    if (style) show(style.display === "none")
  })
  // On a narrow page the panel lies over the board and would hide the run that was just opened.
  const onRunOpened = () => {
    if (styleOfSide()?.position === "absolute") {
      show(false)
      toggle.focus()
    }
  }
  // A tap beside it closes it as well.
  const onPress = (event) => {
    const style = styleOfSide()
    const within = event.composedPath()
    if (style?.position !== "absolute" || style.display === "none") return
    if (within.includes(findSide()) || within.includes(box)) return
    show(false)
    // The tap closes the panel and does nothing to what lies below.
    event.preventDefault()
    event.stopPropagation()
    const swallow = (click) => {
      click.preventDefault()
      click.stopPropagation()
    }
    for (const kind of AFTER_PRESS)
      document.addEventListener(kind, swallow, {
        capture: true,
        once: true,
        signal: AbortSignal.timeout(600),
      })
  }
  window.addEventListener("rl-run-opened", onRunOpened)
  document.addEventListener("pointerdown", onPress, true)
  model.on("remove", () => {
    window.removeEventListener("rl-run-opened", onRunOpened)
    document.removeEventListener("pointerdown", onPress, true)
  })
  const logo = element("h1", "logo", "rl")
  logo.append(element("span", "policy", "panel"))
  box.append(toggle, logo)
  return box
}
