// Theme switch and help. Once the board is drawn, it removes the static first view.

const COOKIE = "rlpanel-theme"

/** Key of the browser's storage: the hint of the first visit was closed, or the help was opened. */
const VISITED = "rlpanel-visited"

function visited(set) {
  try {
    if (set) localStorage.setItem(VISITED, "1")
    return localStorage.getItem(VISITED) !== null
  } catch {
    return true // without storage the hint would come back at each visit
  }
}

/** Help in place: what the parts of the page show, words, shortcuts, and pages of the documentation. */
function help(model) {
  const details = element("details", "rl-help rl-guide")
  const summary = element("summary", "pill", "?")
  summary.title = t("What am I seeing? Words and keyboard shortcuts")
  summary.setAttribute("aria-label", summary.title)
  const panel = element("div", "panel")
  const table = (title, rows, open) => {
    const part = element("details", "part")
    part.open = open
    const list = element("table")
    for (const [name, text] of Object.entries(rows)) {
      const row = element("tr")
      row.append(element("td", "", name), element("td", "", text))
      list.append(row)
    }
    part.append(element("summary", "", title), list)
    panel.append(part)
  }
  table(t("What am I seeing?"), model.parts, true)
  table(t("Words"), model.words, false)
  table(t("Keyboard shortcuts"), model.keys, true)
  table(t("More in the documentation"), model.more, false)
  details.append(summary, panel)
  closeOnEscape(details, summary)
  const box = element("div", "guide")
  box.append(details)
  if (model.owns_window && !visited(false)) box.append(firstVisit(model, details))
  return box
}

/** The hint of the first visit; it goes for good when it is closed or the help is opened. */
function firstVisit(model, details) {
  const hint = element("div", "hint")
  hint.setAttribute("role", "note")
  const close = button("close", "×", t("Close the hint; it does not come back"), () => {
    visited(true)
    hint.remove()
  })
  hint.append(element("span", "", model.hint), close)
  details.addEventListener("toggle", () => details.open && close.click())
  return hint
}

/** Button that copies the address of what is shown, and says what it holds. */
function share(model) {
  const details = element("details", "rl-share")
  const summary = element("summary", "pill")
  summary.append(element("span", "mark", "⤴"), element("span", "word", t("share link")))
  summary.setAttribute("aria-label", t("share link"))
  summary.title = t("Copy the address of what is shown")
  const held = element("table")
  details.append(summary, held)
  closeOnEscape(details, summary)
  details.addEventListener("toggle", () => {
    if (details.open) model.send_msg(["share", true])
  })
  model.on("msg:custom", ({ share }) => {
    if (share === undefined) return
    const address = `${location.origin}${location.pathname}${share}`
    const tell = (text) => {
      const said = element("tr")
      said.append(Object.assign(element("td", "", text), { colSpan: 2 }))
      const rows = [...new URLSearchParams(share)].map(([key, value]) => {
        const row = element("tr")
        row.append(element("td", "", key), element("td", "", value))
        return row
      })
      const note = element("tr")
      const kept = t("The theme, the widths and what is folded stay yours.")
      note.append(Object.assign(element("td", "", kept), { colSpan: 2 }))
      held.replaceChildren(said, ...rows, note)
    }
    copy(address).then(
      () => tell(t("Copied. The link holds:")),
      () => tell(t("The browser did not copy it: take the address of the window. It holds:")),
    )
  })
  return details
}

/** Regions of the page for screen readers: class of a layout, its role and its name. */
const REGIONS = [
  ["rl-header", "banner", t("Run and findings")],
  ["rl-side", "navigation", t("Runs and settings")],
  ["rl-main", "main", t("Curves and samples")],
]

function nameRegions() {
  for (const [name, role, label] of REGIONS) {
    const layout = findDeep(document, `.${name}`)
    layout?.setAttribute("role", role)
    layout?.setAttribute("aria-label", label)
  }
}

// Remove the first view once the whole board is drawn, so that nothing flickers.
async function removeFirstView(view) {
  await drawn(view)
  const first = document.getElementById("rl-first")
  if (!first) return
  first.remove()
  nameRegions()
  performance.mark("rlpanel-drawn")
  document.dispatchEvent(new CustomEvent("rlpanel-settled"))
}

export function render({ model, view }) {
  const box = element("div", "controls")
  const dark = matchMedia("(prefers-color-scheme: dark)")
  const toggle = element("button", "icon")
  toggle.type = "button"
  const draw = () => {
    toggle.textContent = model.dark ? "☀" : "☾"
    toggle.title = model.dark ? t("Light theme") : t("Dark theme")
    toggle.setAttribute("aria-label", toggle.title)
  }
  const drawWindow = () => {
    if (model.owns_window) document.documentElement.className = model.dark ? "rl-dark" : "rl-light"
  }
  toggle.addEventListener("click", () => {
    const next = !model.dark
    if (model.owns_window) {
      document.cookie = `${COOKIE}=${next ? "dark" : "light"}; path=/; SameSite=Lax`
    }
    model.send_msg(["theme", next])
  })
  model.on("dark", () => {
    draw()
    drawWindow()
  })
  draw()
  if (model.owns_window) {
    const cookie = new RegExp(`(?:^|; )${COOKIE}=(dark|light)`).exec(document.cookie)
    const preferred = cookie ? cookie[1] === "dark" : dark.matches
    const linked = "rlLinkedTheme" in document.documentElement.dataset
    // Until the server answers, the window keeps the theme that the page's script chose.
    if (!linked && preferred !== model.dark) {
      model.send_msg(["theme", preferred])
    } else {
      drawWindow()
    }
  }
  const remove = () => {
    if (model.owns_window && model.whole) removeFirstView(view)
  }
  model.on(["after_render", "whole"], remove)
  if (model.owns_window) box.append(share(model))
  box.append(toggle, help(model))
  return box
}
