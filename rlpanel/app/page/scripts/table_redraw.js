// Keeps the cells of a table when its style sheets are loaded or its size changes. Panel lets Tabulator create all
// of them again, twice while a page opens. If all rows are drawn and all widths are fixed, only heights can change.
{
  const shown = viewClass("panel.models.tabulator.DataTabulator")
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
