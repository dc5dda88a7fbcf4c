// In a notebook: says that the view stands, until it is heard; then asks now and then whether it still is.
// A view of a saved notebook, or of a page without a kernel, was never heard and says nothing.
const EVERY = 10 // seconds between two questions, and only while somebody can see the page: they keep a kernel awake
const SILENT = 15 // seconds without an answer until the view says so

const since = (at) => (Date.now() - at) / 1000

export function render({ model, view, el }) {
  const mark = element("div", "mark")
  mark.setAttribute("role", "status")
  mark.hidden = true
  let heard = 0, asked = 0, known = false, ended = 0, lost = 0

  // Panel's extension of JupyterLab lists the views that have a kernel, and forgets them when it restarts.
  const look = () => {
    const listed = Object.hasOwn(window.PyViz?.kernels ?? {}, model.plot)
    if (known && !listed) { ended ||= Date.now() }
    known ||= listed
  }
  const sentence = () => {
    const other = model.plot ? "kernel" : "server"
    if (ended) { return `the kernel was restarted at ${clock(ended)}; run the cell again` }
    if (lost) { return `disconnected since ${clock(lost)}; load the page again` }
    if (!asked || since(asked) < SILENT) { return "" }
    const advice = model.plot ? "; run the cell again if it was restarted" : ""
    return `no news from the ${other} for ${Math.round(since(asked))} s${advice}`
  }
  // The frame around the view: its variables reach all that stands in it.
  const paint = (stale) => {
    const { style } = el.getRootNode().host.getRootNode().host
    style.setProperty("--rl-now", stale ? "none" : "inline")
    style.setProperty("--rl-frame-faded", stale ? "grayscale(1) opacity(.55)" : "none")
  }
  const show = () => {
    if (!heard) { return }
    look()
    if (!asked && since(heard) >= EVERY && document.visibilityState === "visible") {
      asked = Date.now()
      model.send_msg("here")
    }
    const said = sentence()
    mark.hidden = !said
    if (mark.textContent !== said) { mark.textContent = said }
    paint(Boolean(said))
  }
  const tell = () => {
    if (!heard) { model.send_msg("here"); setTimeout(tell, 500) } // without a channel yet, it is said in vain
  }

  setTimeout(tell, 0)
  model.on("msg:custom", () => {
    heard = Date.now()
    asked = 0
    show()
  })
  view.model.document.on_event("connection_lost", () => { lost ||= Date.now() })
  const looking = setInterval(show, 1000)
  model.on("remove", () => clearInterval(looking))
  return mark
}
