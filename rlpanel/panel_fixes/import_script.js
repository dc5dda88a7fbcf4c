// Loads the scripts of components, which import nothing, as the browser itself does. Panel's loader would first
// read and rewrite each of them, for browsers without import maps.
//
// Upstream: docs/upstream/panel-esm-imports.md
// Needed by: Panel 1.9 to 1.10
// Delete when: Panel loads scripts by the browser's own import where it has import maps.
globalThis.importShim = Object.assign((url) => import(url), { addImportMap() {} })
