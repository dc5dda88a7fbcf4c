// Tells of a lost or silent connection, and loads the page again once the server answers; see connection.py.
// All times are seconds.
const SILENT = 15 // without a beat until the page says so
const DEAD = 120 // without a beat until the session counts as lost, though the connection is not closed
const LONGEST = 30 // between two questions to the server
const CALM = 30 // that a page must live before its loss counts as a new one
const RELOADS = "rlpanel.reloads"
const FIELDS = "textarea, input:not([type=range], [type=checkbox], [type=radio], [type=button])"

// How often this tab has just been loaded again for a lost connection: a server that keeps falling is spared.
function recentReloads() {
  try {
    const { count, at } = JSON.parse(sessionStorage.getItem(RELOADS)) ?? {}
    return Date.now() - at < CALM * 1000 ? count : 0
  } catch { return 0 } // storage may be forbidden
}

// Once: a second time would break off the first, and the server would build the page again.
let leaving = false
function reload(count) {
  if (leaving) { return }
  leaving = true
  try { sessionStorage.setItem(RELOADS, JSON.stringify({ count, at: Date.now() })) } catch { /* forbidden */ }
  location.reload()
}

// A proxy answers with a status from 500 up while there is no server behind it.
async function answers() {
  try {
    const answer = await fetch("./health", { cache: "no-store", signal: AbortSignal.timeout(10000) })
    return answer.status < 500
  } catch { return false }
}

// Text fields that hold what the server was not told; `heard` says whether it hears now.
class Unsaved {
  constructor(heard) {
    this.fields = new Set()
    this.known = new WeakSet()
    this.note = (event) => {
      const field = event.composedPath()[0]
      if (!field.matches?.(FIELDS)) { return }
      this.fields.add(field)
      if (this.known.has(field)) { return }
      this.known.add(field)
      field.addEventListener("change", () => { if (heard()) { this.fields.delete(field) } })
    }
    document.addEventListener("input", this.note, true)
  }

  get some() { return [...this.fields].some((field) => field.isConnected && field.value.trim()) }

  stop() { document.removeEventListener("input", this.note, true) }
}

// Numbers fade and ages go, in all shadow roots: styles take these variables from the page.
function fade(on) {
  for (const [name, value] of [["--rl-now", "none"], ["--rl-faded", "grayscale(1) opacity(.55)"]]) {
    if (on) { document.documentElement.style.setProperty(name, value) }
    else { document.documentElement.style.removeProperty(name) }
  }
}

// Panel's own notice of the same would stand beside it, and stay.
function hideToast() {
  const style = element("style", "", "[id^=reconnect-notification] { display: none !important; }")
  document.head.append(style)
  return style
}

export function render({ model, view }) {
  const box = element("div", "box"), words = element("span")
  const again = element("button", "", "Reload")
  again.title = "The text in the field is lost; copy it first"
  box.setAttribute("role", "status")
  box.append(words, again)
  let beat = Date.now(), since = 0, closed = false, back = false, asking = false
  let count = 0, answered = 0, timer = null
  const silence = () => (Date.now() - beat) / 1000
  const heard = () => !since && silence() < SILENT
  const unsaved = new Unsaved(heard)
  const toast = hideToast()
  const narrow = matchMedia("(max-width: 800px)")

  const sentence = () => {
    if (!since) { return `no news from the server for ${Math.round(silence())} s` }
    if (back) { return `disconnected since ${clock(since)}; the server is back, but a field holds unsaved text` }
    return `disconnected since ${clock(since)}, reconnecting …`
  }
  const show = () => {
    const well = heard()
    fade(!well)
    box.className = since ? "box lost" : "box"
    box.hidden = well
    again.hidden = !back
    if (!well && words.textContent !== sentence()) { words.textContent = sentence() }
    // In a narrow window the head has no room, and the side panel may lie over it.
    box.popover = narrow.matches ? "manual" : null
    if (narrow.matches && box.isConnected) { box.togglePopover(!well) }
  }

  const lose = (at) => {
    if (since) { return }
    since = at
    count = recentReloads()
    answered = 0
    pause()
    show()
  }
  const pause = () => {
    clearTimeout(timer)
    // Not all pages at once: a server that starts has enough to do.
    timer = setTimeout(ask, Math.min(LONGEST, 2 ** count) * (500 + 1000 * Math.random()))
  }
  const ask = async () => {
    if (asking || back || !since) { return }
    clearTimeout(timer)
    asking = true
    answered = (await answers()) ? answered + 1 : 0
    asking = false
    if (!since || !box.isConnected) { return }
    count += 1
    // A connection that is still open may yet bring a beat: the server was only busy.
    back = answered >= (closed ? 1 : 4)
    if (back && !unsaved.some) { reload(count) } else if (!back) { pause() }
    show()
  }
  const heal = () => {
    beat = Date.now()
    if (closed) { return }
    clearTimeout(timer)
    since = 0
    back = false
    show()
  }
  const look = () => {
    if (!since && silence() > DEAD) { lose(beat) }
    if (back && !unsaved.some) { reload(count) }
    show()
  }
  const now = () => { if (document.visibilityState === "visible") { ask() } }

  again.addEventListener("click", () => reload(count))
  model.on("beat", heal)
  view.model.document.on_event("connection_lost", () => {
    closed = true
    lose(Date.now())
  })
  document.addEventListener("visibilitychange", now)
  window.addEventListener("online", now)
  const looking = setInterval(look, 1000)
  model.on("remove", () => {
    clearInterval(looking)
    clearTimeout(timer)
    document.removeEventListener("visibilitychange", now)
    window.removeEventListener("online", now)
    unsaved.stop()
    toast.remove()
  })
  show()
  return box
}
