/**
 * Close an opened `<details>` on Escape and on a click outside. Escape returns the focus to its summary, if the
 * focus was within. Return a function that stops this.
 */
function closeOnEscape(box, summary) {
  const outside = (event) => {
    if (!event.composedPath().includes(box)) box.open = false
  }
  const closeBox = (event) => {
    if (event.key !== "Escape" || !box.open) return
    event.stopPropagation()
    const focused = box.contains(box.getRootNode().activeElement)
    box.open = false
    if (focused) summary.focus()
  }
  const stop = () => {
    document.removeEventListener("pointerdown", outside)
    document.removeEventListener("keydown", closeBox, true)
  }
  box.addEventListener("keydown", closeBox) // the browser reports the opening a moment later
  box.addEventListener("toggle", () => {
    stop()
    if (!box.open) return
    document.addEventListener("pointerdown", outside)
    document.addEventListener("keydown", closeBox, true)
  })
  return stop
}
