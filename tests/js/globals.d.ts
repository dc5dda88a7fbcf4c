// What the page has beside the package's own scripts.
declare const Bokeh: any
/** The token view's `render`; the exported report wraps its module in this function. */
declare function tokenView(given: { model: any }): HTMLElement
interface Window {
  PyViz?: { kernels?: Record<string, unknown> }
}
/** The scripts and style sheets of a region's parts; region.py writes them before region.js. */
declare const DRAW: Record<string, (given: any) => HTMLElement>
declare const SHEETS: Record<string, string[]>
declare const TEXTS: Record<string, string[]>
