// Shows and hides the side panel. A CSS variable of the page carries the choice, because the panel's own
// style depends on the page's width: closed by default on a narrow page, open on a wide one.

export function render({ el }) {
  const box = element("div", "brand")
  const toggle = element("button", "icon", "☰")
  Object.assign(toggle, { type: "button", title: "Show or hide the runs" })
  toggle.setAttribute("aria-label", "Show or hide the runs")
  toggle.addEventListener("click", () => {
    const page = outermostHost(el)
    const side = page && findDeep(page.shadowRoot, ".rl-side")
    if (!side) { return }
    const open = getComputedStyle(side).display === "none"
    page.style.setProperty("--rl-side", open ? "flex" : "none")
    toggle.setAttribute("aria-expanded", String(open))
    window.dispatchEvent(new Event("resize"))  // Bokeh measures its plots again
  })
  const logo = element("h1", "logo", "rl")
  logo.append(element("span", "policy", "panel"))
  box.append(toggle, logo)
  return box
}
