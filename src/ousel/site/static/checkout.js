// An open checkout page counts down, and reloads when the charge changes elsewhere.

const WAIT_SECONDS = 25;
const PAUSE_MILLISECONDS_MAX = 30_000;
const address = location.pathname;
const timer = document.getElementById("time-left");
const arrived = performance.getEntriesByType("navigation")[0]?.responseStart ?? performance.now();
let ends = arrived + Number(timer.dataset.milliseconds);
let leaving = false;

// Show the time left, rounded up and counted from the arrival of the answer, so it is never too short.
function show() {
  const left = Math.max(Math.ceil((ends - performance.now()) / 1000), 0);
  const parts = [Math.floor(left / 3600), Math.floor(left / 60) % 60, left % 60];
  const shown = parts[0] ? parts : parts.slice(1);
  timer.textContent = shown.map((part, index) => String(part).padStart(index ? 2 : 1, "0")).join(":");
}

function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

async function fetchStatus() {
  const answer = await fetch(`${address}/status`, {
    headers: { Prefer: `wait=${WAIT_SECONDS}` },
    cache: "no-store",
  });
  if (!answer.ok) throw new Error(answer.statusText);
  return { ...(await answer.json()), waited: answer.headers.has("Preference-Applied") };
}

async function followCharge() {
  let pause = 1000;
  for (;;) {
    try {
      const charge = await fetchStatus();
      if (charge.status !== "created") {
        // Do not interrupt a payer who has clicked a link. After a click on "Cancel", the status may have changed because
        // the partner's page, which is just loading, has canceled the charge.
        if (leaving) await sleep(PAUSE_MILLISECONDS_MAX);
        location.replace(`${address}?onward=yes`);
        return;
      }
      ends = performance.now() + charge.milliseconds_left;
      pause = charge.waited ? 250 : 5000;
    } catch {
      pause = Math.min(pause * 2, PAUSE_MILLISECONDS_MAX);
    }
    await sleep(pause);
  }
}

// Browsers on phones do not reliably report that they are leaving a page.
document.addEventListener("click", (event) => {
  const opensBeside = event.ctrlKey || event.metaKey || event.shiftKey;
  leaving ||= !opensBeside && event.target.closest("a:not([href^='#'])") !== null;
});
window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
show();
setInterval(show, 250);
followCharge();
