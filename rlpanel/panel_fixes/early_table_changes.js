// Applies what a table got before Tabulator had created it. Panel's handlers would raise errors or ignore it; from 1.10
// on, new rows are applied.
//
// Upstream: docs/upstream/panel-tabulator-early.md; https://github.com/holoviz/panel/pull/5412 did a part of this
// Needed by: Panel 1.9 to 1.10
// Delete when: the grid is a component of its own, or a change before `tableBuilt` is applied after it.
function keepTableChanges() {
  const shown = Bokeh.Models.get("panel.models.tabulator.DataTabulator")?.prototype.default_view.prototype
  if (!shown || shown.keepsEarly) return
  shown.keepsEarly = true
  for (const name of ["setData", "setSorters", "setMaxPage", "setPage", "setPageSize"]) {
    const apply = shown[name]
    shown[name] = function () {
      if (this.tabulator?.initialized && (!this._building || this.isFirst)) return apply.call(this)
      this.early = (this.early ?? new Set()).add(name)
      return Promise.resolve()
    }
  }
  const { requestPage, tableBuilt } = shown
  // The first request has the page and the sort of when the table was begun, and would undo later ones.
  shown.requestPage = function (...given) {
    return this.tabulator?.initialized && !this._building
      ? requestPage.apply(this, given)
      : Promise.resolve([])
  }
  shown.tableBuilt = function () {
    this.isFirst = true
    tableBuilt.call(this)
    this.isFirst = false
    const early = this.early ?? new Set()
    this.early = undefined
    const data = early.delete("setData")
    for (const name of early) this[name]()
    if (data) this.setData().then(() => this.postUpdate())
  }
}
