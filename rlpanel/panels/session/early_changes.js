// Keeps changes that arrive while the browser is still building what they change.
//
// Bokeh builds new views in many tasks. A view hears changes only when all new ones are built: a child that is
// replaced before stays blank. Then it hears them before it is rendered, and its handlers raise errors, which
// discard the rest of the message.

// Milliseconds that a message waits. A view that is never built must not stop the page: later ones do not wait.
const LONGEST = 2000

// Apply the server's messages in their order, each when the views of the last one are built.
function keepMessages({ model, owner }) {
  const page = model.document
  if (page === null || Object.hasOwn(page, "apply_json_patch")) { return }
  const waiting = []
  let building = false
  let patient = true

  const built = () => Promise.race([
    Promise.all(page.roots().map((root) => owner.get(root)?.ready ?? globalThis.Bokeh.index.get(root)?.ready)),
    new Promise((_, giveUp) => { setTimeout(giveUp, LONGEST) }),
  ])
  const apply = (given) => {
    building = true
    try {
      Object.getPrototypeOf(page).apply_json_patch.apply(page, given)
    } finally {
      if (patient) {
        built().then(next, () => { patient = false; next() })
      } else {
        next()
      }
    }
  }
  const next = () => {
    building = false
    if (waiting.length > 0) { apply(waiting.shift()) }
  }
  page.apply_json_patch = (...given) => {
    if (building) { waiting.push(given) } else { apply(given) }
  }
}

// Apply what a table got before Tabulator had created it. Panel's handlers would raise errors or ignore it.
function keepTableChanges() {
  const shown = globalThis.Bokeh.Models.get("panel.models.tabulator.DataTabulator")?.prototype.default_view.prototype
  if (!shown || shown.keepsEarly) { return }
  shown.keepsEarly = true
  for (const name of ["setData", "setSorters", "setMaxPage", "setPage", "setPageSize"]) {
    const apply = shown[name]
    shown[name] = function () {
      if (this.tabulator?.initialized && (!this._building || this.isFirst)) { return apply.call(this) }
      this.early = (this.early ?? new Set()).add(name)
      return Promise.resolve()
    }
  }
  const { requestPage, tableBuilt } = shown
  // The first request has the page and the sort of when the table was begun, and would undo later ones.
  shown.requestPage = function (...given) {
    return this.tabulator?.initialized && !this._building ? requestPage.apply(this, given) : Promise.resolve([])
  }
  shown.tableBuilt = function () {
    this.isFirst = true
    tableBuilt.call(this)
    this.isFirst = false
    const early = this.early ?? new Set()
    this.early = undefined
    const data = early.delete("setData")
    for (const name of early) { this[name]() }
    if (data) { this.setData().then(() => this.postUpdate()) }
  }
}
