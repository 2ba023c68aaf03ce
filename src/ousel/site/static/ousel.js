// Small improvements; every page also works without them.

// Show times in the viewer's time zone; the title keeps UTC.
const zoned = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
for (const time of document.querySelectorAll("time[datetime]")) {
  time.textContent = zoned.format(new Date(time.dateTime));
}

// Show copy buttons only if the clipboard can be written.
if (navigator.clipboard) {
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.ariaLive = "polite"; // a screen reader says that the text was copied
    button.addEventListener("click", async () => {
      const copied = document.getElementById(button.dataset.copy);
      await navigator.clipboard.writeText(copied.value ?? copied.textContent);
      button.textContent = "Copied";
    });
  }
}

// Show print buttons, which need a script.
for (const button of document.querySelectorAll("button[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => window.print());
}

// Do not send a form twice on a second click. Later clicks count again, because the first request
// may have been stopped. Where a repetition would matter, the server recognizes it.
const SECOND_CLICK_MS = 10_000;
for (const form of document.querySelectorAll("form[method=post]")) {
  form.addEventListener("submit", (event) => {
    if (Date.now() - form.dataset.sent < SECOND_CLICK_MS) event.preventDefault();
    else form.dataset.sent = Date.now();
  });
}
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});
