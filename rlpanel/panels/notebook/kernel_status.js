// Heartbeat of a view in a notebook: reports that the view is drawn until the kernel confirms it, then pings.
// Without a first confirmation, as in a saved notebook or a page without a kernel, no message is shown.
const PING_INTERVAL = 10 // seconds between pings; only while the page is visible, as pings keep a kernel from being culled
const TIMEOUT = 15 // seconds without an answer until a message is shown

const secondsSince = (time) => (Date.now() - time) / 1000

// Whether the first background behind an element is dark; a page without one says so by its colour scheme.
function pageIsDark(behind) {
  for (let at = behind; at; at = at.parentElement ?? at.getRootNode().host) {
    const [red, green, blue, alpha = 1] =
      getComputedStyle(at)
        .backgroundColor.match(/[\d.]+/g)
        ?.map(Number) ?? []
    if (alpha > 0.5) return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 128
  }
  if (document.body.classList.contains("vscode-dark")) return true
  return getComputedStyle(document.documentElement).colorScheme === "dark"
}

export function render({ model, view, el }) {
  const mark = element("div", "mark")
  mark.setAttribute("role", "status")
  mark.hidden = true
  // Times in milliseconds; 0: it did not happen.
  let confirmed = 0,
    pinged = 0,
    restarted = 0,
    lost = 0
  let wasListed = false

  // Panel's extension of JupyterLab lists the views with a kernel and removes them when it is restarted.
  const checkKernel = () => {
    const listed = Object.hasOwn(window.PyViz?.kernels ?? {}, model.plot)
    if (wasListed && !listed) restarted ||= Date.now()
    wasListed ||= listed
  }
  const message = () => {
    const peer = model.plot ? "kernel" : "server"
    if (restarted) {
      return `The kernel was restarted at ${clock(restarted)}; run the cell again`
    }
    if (lost) {
      return `Disconnected since ${clock(lost)}; reload the page`
    }
    if (!pinged || secondsSince(pinged) < TIMEOUT) return ""
    const advice = model.plot ? "; run the cell again if it was restarted" : ""
    return `No response from the ${peer} for ${Math.round(secondsSince(pinged))} s${advice}`
  }
  // CSS variables of the frame around the view are inherited by the whole view.
  const setStale = (stale) => {
    const { style } = el.getRootNode().host.getRootNode().host
    style.setProperty("--rl-now", stale ? "none" : "inline")
    style.setProperty("--rl-frame-faded", stale ? "grayscale(1) opacity(.55)" : "none")
  }
  const update = () => {
    if (!confirmed) return
    checkKernel()
    if (!pinged && secondsSince(confirmed) >= PING_INTERVAL && document.visibilityState === "visible") {
      pinged = Date.now()
      model.send_msg("here")
    }
    const text = message()
    mark.hidden = !text
    if (mark.textContent !== text) mark.textContent = text
    setStale(Boolean(text))
  }
  const reportDrawn = () => {
    if (!confirmed) {
      model.send_msg("here")
      setTimeout(reportDrawn, 500)
    } // lost until the channel is open
  }

  // The theme of the page around the view; reported at first and when it changes.
  let reported = ""
  const reportTheme = () => {
    if (!model.follows || !confirmed || document.visibilityState !== "visible") return
    const frame = el.getRootNode().host.getRootNode().host
    const theme = pageIsDark(frame.parentElement ?? frame.getRootNode().host) ? "dark" : "light"
    if (theme === reported) return
    reported = theme
    model.send_msg(theme)
  }

  setTimeout(reportDrawn, 0)
  model.on("msg:custom", () => {
    confirmed = Date.now()
    pinged = 0
    update()
    reportTheme()
  })
  view.model.document.on_event("connection_lost", () => {
    lost ||= Date.now()
  })
  const timer = setInterval(() => {
    update()
    reportTheme()
  }, 1000)
  model.on("remove", () => clearInterval(timer))
  return mark
}
