// A time in milliseconds as the viewer's clock shows it, with seconds.
const clock = (at) => new Date(at).toLocaleTimeString([], { hour12: false })
