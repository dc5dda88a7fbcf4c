// Chooses the theme before the first paint: from the URL, else the last visit, else the system.
;(() => {
  const asked = new URLSearchParams(location.search).get("theme")
  const last = /(?:^|; )THEME_COOKIE=(dark|light)/.exec(document.cookie)?.[1]
  const system = matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark"
  // The server draws the next page in it at once.
  document.cookie = `SYSTEM_COOKIE=${system}; path=/; SameSite=Lax`
  const light = asked ? /^(light|false|0)$/i.test(asked) : (last ?? system) === "light"
  if (asked) document.documentElement.dataset.rlLinkedTheme = "" // the board may remove it from the URL
  document.documentElement.className = light ? "rl-light" : "rl-dark"
})()
