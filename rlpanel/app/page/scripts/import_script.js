// Loads the scripts of components, which import nothing, as the browser itself does. Panel's loader would first
// read and rewrite each of them, for browsers without import maps.
globalThis.importShim = Object.assign((url) => import(url), { addImportMap() {} })
