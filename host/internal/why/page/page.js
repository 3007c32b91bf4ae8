// Keeps a page current, and shows its times in the zone of the viewer too. Everything is there without it.
const every = 1000

let tag = "", looking = false

// local adds the viewer's time to each time of the node.
function local(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime)
    const here = at.toLocaleTimeString([], {hour: "2-digit", minute: "2-digit", second: "2-digit"})
    if (!Number.isNaN(at.getTime()) && at.getTimezoneOffset() !== 0) time.append(` (${here} here)`)
  }
}

// swap replaces the parts of the page that have changed, but none that the viewer is in.
function swap(next) {
  const was = [...document.querySelectorAll("main > *")], is = [...next.querySelectorAll("main > *")]
  if (was.length !== is.length) {
    document.querySelector("main").replaceWith(next.querySelector("main"))
    return
  }
  was.forEach((part, i) => {
    if (part.dataset.text === is[i].outerHTML || part.contains(document.activeElement) || part.querySelector("details[open]")) return
    is[i].dataset.text = is[i].outerHTML
    part.replaceWith(is[i])
  })
}

async function look() {
  const state = document.querySelector("#live")
  looking = true
  try {
    const answer = await fetch(location.href, {cache: "no-store", signal: AbortSignal.timeout(30 * every), headers: tag ? {"If-None-Match": tag} : {}})
    if (answer.status === 200) {
      tag = answer.headers.get("ETag") ?? ""
      const next = new DOMParser().parseFromString(await answer.text(), "text/html")
      local(next)
      swap(next)
    }
    state.textContent = answer.ok || answer.status === 304 ? "" : `No answer: ${answer.status}`
  } catch {
    state.textContent = "evictd page does not answer any more: what is shown is old."
  }
  looking = false
}

local(document)
if (document.querySelector("#live")) {
  setInterval(() => { if (!document.hidden && !looking) look() }, every)
}
