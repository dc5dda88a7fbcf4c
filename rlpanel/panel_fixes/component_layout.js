// Components without children do not make Bokeh lay out the whole page. Bokeh does so for each component whose
// size the browser has changed, thirty times while a page opens, and measures all axes each time. Only plots
// depend on it, and they notice when their own size changes.
//
// Upstream: docs/upstream/panel-esm-layout.md; https://github.com/holoviz/panel/pull/7989 did a part of this
// Needed by: Panel 1.9 to 1.10
// Delete when: a component without children whose size changed does not lay out the page.
{
  // Later versions may have no class of this name.
  const shown = Bokeh.Models.get("panel.models.esm.ReactiveESM")?.prototype.default_view.prototype ?? {}
  const { _after_resize } = shown
  shown._after_resize = function () {
    if (this.is_layout_root || this.model.children.length) _after_resize.call(this)
  }
}
