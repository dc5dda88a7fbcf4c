// Components without children do not make Bokeh lay out the whole page. Bokeh does so for each component whose
// size the browser has changed, thirty times while a page opens, and measures all axes each time. Only plots
// depend on it, and they notice when their own size changes.
{
  const shown = viewClass("panel.models.esm.ReactiveESM")
  const { _after_resize } = shown
  shown._after_resize = function () {
    if (this.is_layout_root || this.model.children.length) _after_resize.call(this)
  }
}
