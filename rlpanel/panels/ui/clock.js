// Format a time in milliseconds as the viewer's local time with seconds.
const clock = (milliseconds) => new Date(milliseconds).toLocaleTimeString([], { hour12: false })
