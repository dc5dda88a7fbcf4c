// Choice of the page's language. The choice is kept in a cookie, and the page is loaded again from its address.
const COOKIE = "rlpanel-language"

export function render({ model }) {
  const box = element("label", "language", t("Language"))
  const select = element("select")
  for (const [code, name] of Object.entries(model.languages)) {
    const option = element("option", "", name)
    Object.assign(option, { value: code, lang: code })
    select.append(option)
  }
  select.value = model.language
  select.addEventListener("change", () => {
    document.cookie = `${COOKIE}=${select.value}; path=/; max-age=31536000; SameSite=Lax`
    location.reload()
  })
  box.append(select)
  return box
}
