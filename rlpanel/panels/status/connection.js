// Reports a lost or silent connection, and reloads the page once the server answers; see connection.py.
// All times are in seconds.
const SILENT = 15 // without a heartbeat, until the page shows a message
const DEAD = 120 // without a heartbeat, until an open connection counts as lost
const LONGEST = 30 // longest pause between two requests to the server
const CALM = 30 // lifetime of a page after which a loss no longer counts as a repeated one
const RELOADS = "rlpanel.reloads"
const FIELDS = "textarea, input:not([type=range], [type=checkbox], [type=radio], [type=button])"

// Return how often this tab was recently reloaded because of a lost connection. Pauses grow with this number, so
// that a server that keeps crashing is not flooded with requests.
function recentReloads() {
  try {
    const { count, at } = JSON.parse(sessionStorage.getItem(RELOADS)) ?? {}
    return Date.now() - at < CALM * 1000 ? count : 0
  } catch {
    return 0
  } // storage may be forbidden
}

// Reload once: a second call would abort the first reload, and the server would build the page twice.
let leaving = false
function reload(count) {
  if (leaving) return
  leaving = true
  try {
    sessionStorage.setItem(RELOADS, JSON.stringify({ count, at: Date.now() }))
  } catch {
    /* forbidden */
  }
  location.reload()
}

// Return true if the server answers. A proxy without a running server answers with a status of 500 or above.
async function answers() {
  try {
    const answer = await fetch("./health", { cache: "no-store", signal: AbortSignal.timeout(10000) })
    return answer.status < 500
  } catch {
    return false
  }
}

// Tracks text fields whose text was not sent to the server; `connected` tells whether the server receives changes.
class UnsavedFields {
  constructor(connected) {
    this.fields = new Set()
    this.watched = new WeakSet()
    this.onInput = (event) => {
      const field = event.composedPath()[0]
      if (!field.matches?.(FIELDS)) return
      this.fields.add(field)
      if (this.watched.has(field)) return
      this.watched.add(field)
      field.addEventListener("change", () => {
        if (connected()) this.fields.delete(field)
      })
    }
    document.addEventListener("input", this.onInput, true)
  }

  get exist() {
    return [...this.fields].some((field) => field.isConnected && field.value.trim())
  }

  stop() {
    document.removeEventListener("input", this.onInput, true)
  }
}

// Grey out numbers and hide ages. Styles in all shadow roots inherit these variables from the page.
function fade(on) {
  for (const [name, value] of [
    ["--rl-now", "none"],
    ["--rl-faded", "grayscale(1) opacity(.55)"],
  ]) {
    if (on) document.documentElement.style.setProperty(name, value)
    else {
      document.documentElement.style.removeProperty(name)
    }
  }
}

// Hide Panel's own notifications about the connection: the header shows it. Without their text in Panel's
// settings, Panel's script would fail and the event would not reach this one.
function hideToast() {
  const style = element("style", "", ".notyf__disconnect, .notyf__reconnect { display: none !important; }")
  document.head.append(style)
  return style
}

export function render({ model, view }) {
  const box = element("div", "box"),
    message = element("span")
  const reloadButton = element("button", "", t("Reload"))
  reloadButton.title = t("Reloading discards the text in the field; copy it first")
  box.setAttribute("role", "status")
  box.append(message, reloadButton)
  let beat = Date.now(),
    since = 0,
    closed = false,
    back = false,
    asking = false
  let count = 0,
    answered = 0,
    timer = null
  const silence = () => (Date.now() - beat) / 1000
  const connected = () => !since && silence() < SILENT
  const unsaved = new UnsavedFields(connected)
  const toast = hideToast()
  const narrow = matchMedia("(max-width: 800px)")

  const sentence = () => {
    if (!since) {
      return t("no response from the server for {seconds} s", { seconds: Math.round(silence()) })
    }
    if (back) {
      return t("disconnected since {time}; the server is back, but a field contains unsaved text", {
        time: clock(since),
      })
    }
    return t("disconnected since {time}, reconnecting …", { time: clock(since) })
  }
  const show = () => {
    const ok = connected()
    fade(!ok)
    box.className = since ? "box lost" : "box"
    box.hidden = ok
    reloadButton.hidden = !back
    if (!ok && message.textContent !== sentence()) message.textContent = sentence()
    // In a narrow window the header has no room for the box, and the sidebar may cover it.
    box.popover = narrow.matches ? "manual" : null
    if (narrow.matches && box.isConnected) box.togglePopover(!ok)
  }

  const onLost = (time) => {
    if (since) return
    since = time
    count = recentReloads()
    answered = 0
    schedule()
    show()
  }
  const schedule = () => {
    clearTimeout(timer)
    // Random jitter, so that not all pages contact a starting server at the same time.
    timer = setTimeout(ask, Math.min(LONGEST, 2 ** count) * (500 + 1000 * Math.random()))
  }
  const ask = async () => {
    if (asking || back || !since) return
    clearTimeout(timer)
    asking = true
    answered = (await answers()) ? answered + 1 : 0
    asking = false
    if (!since || !box.isConnected) return
    count += 1
    // An open connection may recover, since the server may just be busy: wait for several answers first.
    back = answered >= (closed ? 1 : 4)
    if (back && !unsaved.exist) {
      reload(count)
    } else if (!back) {
      schedule()
    }
    show()
  }
  const onBeat = () => {
    beat = Date.now()
    if (closed) return
    clearTimeout(timer)
    since = 0
    back = false
    show()
  }
  const check = () => {
    if (!since && silence() > DEAD) onLost(beat)
    if (back && !unsaved.exist) reload(count)
    show()
  }
  const askIfVisible = () => {
    if (document.visibilityState === "visible") ask()
  }

  reloadButton.addEventListener("click", () => reload(count))
  model.on("beat", onBeat)
  view.model.document.on_event("connection_lost", () => {
    closed = true
    onLost(Date.now())
  })
  document.addEventListener("visibilitychange", askIfVisible)
  window.addEventListener("online", askIfVisible)
  const interval = setInterval(check, 1000)
  model.on("remove", () => {
    clearInterval(interval)
    clearTimeout(timer)
    document.removeEventListener("visibilitychange", askIfVisible)
    window.removeEventListener("online", askIfVisible)
    unsaved.stop()
    toast.remove()
  })
  show()
  return box
}
