// The pages work without this script. It keeps them up to date, and saves a click here and there.
"use strict";

const REFRESH_MS = 5000; // no page is fetched again sooner
const RETRY_MS = 10000; // after a stream that was refused
const body = document.body;
const offsetMs = Number(body.dataset.now) - Date.now(); // the member's clock and this one

// --- light and dark ------------------------------------------------------------------------------

const theme = document.getElementById("theme");
theme.hidden = false;
theme.addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("rollcall-theme", root.dataset.theme);
  } catch (error) {
    // It holds for this page alone.
  }
});

// On a narrow screen the entries of the navigation are one row, which may begin far from this page's entry.
document.querySelector(".side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// --- the search field ------------------------------------------------------------------------------

const find = document.getElementById("find");
document.addEventListener("keydown", (event) => {
  if (!find || event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
  event.preventDefault();
  find.focus();
  find.select();
});

// --- forms ---------------------------------------------------------------------------------------

for (const field of document.querySelectorAll("[data-submit]")) {
  field.addEventListener("change", () => field.form.requestSubmit());
}
// A form that is sent twice would do twice what it does.
for (const form of document.querySelectorAll("form[method=post]")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
  });
}
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// --- selected rows ---------------------------------------------------------------------------------

const boxes = () => [...document.querySelectorAll("input[name=pick][form]")];

function countPicks() {
  const said = document.getElementById("picked-text");
  const all = document.querySelector("[data-picks]");
  if (!said || !all) return;
  const count = boxes().filter((one) => one.checked).length;
  all.hidden = false;
  all.checked = count > 0 && count === boxes().length;
  all.indeterminate = count > 0 && !all.checked;
  said.textContent = count ? said.dataset.some.replace("{}", count) : said.dataset.none;
}

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-picks]")) for (const one of boxes()) one.checked = event.target.checked;
  if (event.target.matches("[data-picks], [name=pick]")) countPicks();
});
countPicks();

// A region that is drawn anew keeps the boxes that are ticked and the rows that are open.
function stateOf(region) {
  const ticked = [...region.querySelectorAll("input[name=pick]:checked")].map((one) => one.value);
  const open = [...region.querySelectorAll("details[open] > summary")].map((one) => one.dataset.of);
  return { ticked: new Set(ticked), open: new Set(open) };
}

function restore(region, kept) {
  for (const one of region.querySelectorAll("input[name=pick]")) one.checked = kept.ticked.has(one.value);
  for (const one of region.querySelectorAll("details > summary")) {
    if (kept.open.has(one.dataset.of)) one.parentElement.open = true;
  }
  countPicks();
}

// --- ages that go on -----------------------------------------------------------------------------

const UNITS = body.dataset.units.split(" "); // the largest first, in the language of the page
const STEPS_MS = [86400000, 3600000, 60000, 1000];

function ageText(ageMs) {
  for (const [number, unitMs] of STEPS_MS.entries()) {
    if (ageMs >= unitMs) {
      const count = ageMs / unitMs;
      return (unitMs === 1000 && count < 10 ? count.toFixed(1) : Math.floor(count)) + "\u00a0" + UNITS[number];
    }
  }
  return Math.max(Math.round(ageMs), 0) + "\u00a0" + UNITS.at(-1);
}

setInterval(() => {
  if (document.hidden) return;
  const nowMs = Date.now() + offsetMs;
  for (const one of document.querySelectorAll("[data-since]")) {
    one.textContent = ageText(nowMs - Number(one.dataset.since));
  }
}, 1000);

// --- live ----------------------------------------------------------------------------------------

const dot = document.getElementById("live-dot");
const said = document.getElementById("live-text");
let source = null;
let known = null;
let fetchedMs = Date.now();
let timer = 0;

function show(state, text) {
  dot.dataset.state = state;
  said.textContent = text;
}

async function refresh() {
  timer = 0;
  fetchedMs = Date.now();
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error" });
    if (!answer.ok) throw new Error(String(answer.status));
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const region of document.querySelectorAll("[data-region]")) {
      const replacement = fresh.getElementById(region.id);
      if (!replacement || replacement.innerHTML === region.innerHTML) continue;
      const focused = region.contains(document.activeElement) ? document.activeElement : null;
      const label = focused && (focused.getAttribute("aria-label") || focused.getAttribute("href"));
      const left = region.scrollLeft;
      const kept = stateOf(region);
      region.className = replacement.className;
      region.replaceChildren(...replacement.childNodes);
      restore(region, kept);
      region.scrollLeft = left;
      if (label) {
        for (const one of region.querySelectorAll("a, button, input, summary")) {
          if ((one.getAttribute("aria-label") || one.getAttribute("href")) === label) one.focus({ preventScroll: true });
        }
      }
    }
    show("on", "");
  } catch (error) {
    show("off", said.dataset.old);
  }
}

function changed(data) {
  const news = known !== null && data !== known;
  known = data;
  if (news && !timer) timer = setTimeout(refresh, Math.max(0, fetchedMs + REFRESH_MS - Date.now()));
}

function follow() {
  if (source || !body.dataset.live || document.hidden) return;
  source = new EventSource(body.dataset.live);
  source.onmessage = (event) => {
    show("on", "");
    changed(event.data);
  };
  source.onopen = () => show("on", "");
  source.onerror = () => {
    if (!source || source.readyState !== EventSource.CLOSED) return;
    // The member refused the stream: it restarts, or as many pages follow it as it serves.
    show("off", said.dataset.off);
    source = null;
    setTimeout(follow, RETRY_MS);
  };
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden && source) {
    source.close();
    source = null;
  } else {
    follow();
  }
});
follow();
