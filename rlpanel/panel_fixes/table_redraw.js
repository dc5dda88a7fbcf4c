// Keeps the cells of a table when its style sheets are loaded or its size changes. Panel lets Tabulator create all
// of them again, twice while a page opens. If all rows are drawn and all widths are fixed, only heights can change.
//
// Upstream: docs/upstream/panel-tabulator-redraw.md
// Needed by: Panel 1.9 to 1.10
// Delete when: the grid is a component of its own, or a table with fixed widths keeps its cells.
{
  // Later versions may have no class of this name.
  const shown =
    Bokeh.Models.get("panel.models.tabulator.DataTabulator")?.prototype.default_view.prototype ?? {}
  const { redraw } = shown
  const isDrawn = ({ options, rowManager, columnManager }) =>
    options.layout === "fitData" &&
    options.renderVertical === "basic" &&
    options.rowHeight &&
    rowManager.tableElement.childElementCount === rowManager.displayRowsCount &&
    columnManager.columnsByIndex.every((column) => !column.visible || column.widthFixed)
  shown.redraw = function (...given) {
    if (!this._building && this.tabulator?.initialized && isDrawn(this.tabulator)) {
      this.tabulator.columnManager.verticalAlignHeaders()
      this.setSelection()
    } else {
      redraw.apply(this, given)
    }
  }
}
