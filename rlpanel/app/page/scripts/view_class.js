// Return what all views of a class of models have in common; an empty object if this version has no such class.
const viewClass = (name) => Bokeh.Models.get(name)?.prototype.default_view.prototype ?? {}
