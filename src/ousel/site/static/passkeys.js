// Passkeys: fetches a challenge, lets the browser answer it, and sends the form with the answer.

const MESSAGES = {
  NotAllowedError: "The passkey was not used. Try again.",
  InvalidStateError: "This device has a passkey for your account already.",
};
const OTHER_MESSAGE = "The browser could not use a passkey. Reload the page and try again.";
const RESPONSE_FIELDS = {
  create: ["clientDataJSON", "attestationObject"],
  get: ["clientDataJSON", "authenticatorData", "signature", "userHandle"],
};

class Refused extends Error {}

function decode(text) {
  const characters = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(characters, (character) => character.charCodeAt(0));
}

function encode(buffer) {
  const characters = String.fromCharCode(...new Uint8Array(buffer));
  return btoa(characters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// Older browsers cannot convert options and answers between JSON and buffers by themselves.
function withBuffers(options) {
  const listed = (credentials = []) => credentials.map((each) => ({ ...each, id: decode(each.id) }));
  return {
    ...options,
    challenge: decode(options.challenge),
    ...(options.user && { user: { ...options.user, id: decode(options.user.id) } }),
    excludeCredentials: listed(options.excludeCredentials),
    allowCredentials: listed(options.allowCredentials),
  };
}

function asJson(credential, names) {
  const present = names.filter((name) => credential.response[name]);
  const response = present.map((name) => [name, encode(credential.response[name])]);
  const id = encode(credential.rawId);
  return JSON.stringify({ id, rawId: id, type: credential.type, response: Object.fromEntries(response) });
}

async function fetchOptions(form) {
  const answer = await fetch(form.dataset.options, {
    method: "POST",
    body: new URLSearchParams({ form_token: form.elements.form_token.value }),
    redirect: "error",
  });
  const options = await answer.json();
  if (!answer.ok) throw new Refused(options.detail);
  return options;
}

async function useForm(form) {
  const kind = form.dataset.passkey;
  const alert = form.querySelector("[role=alert]");
  const button = form.querySelector("button");
  alert.hidden = button.disabled = true;
  try {
    const publicKey = withBuffers(await fetchOptions(form));
    const credential = await navigator.credentials[kind]({ publicKey });
    form.querySelector("[data-answer]").value = asJson(credential, RESPONSE_FIELDS[kind]);
    form.submit();
  } catch (error) {
    alert.textContent = error instanceof Refused ? error.message : (MESSAGES[error.name] ?? OTHER_MESSAGE);
    alert.hidden = false;
  }
  button.disabled = false;
  if (document.activeElement === document.body) button.focus(); // browsers take the focus from a disabled button
}

// Until this code has run, the page says that passkeys do not work.
for (const form of document.querySelectorAll("form[data-passkey]")) {
  const isElsewhere = location.origin !== form.dataset.origin;
  form.hidden = !window.PublicKeyCredential;
  const elsewhere = document.querySelector("[data-passkeys=elsewhere]");
  elsewhere.hidden = !isElsewhere;
  const link = elsewhere.querySelector("a");
  link.textContent = form.dataset.origin;
  link.href = form.dataset.origin + link.dataset.path;
  document.querySelector("[data-passkeys=unsupported]").hidden = isElsewhere || !form.hidden;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (isElsewhere) link.click();
    else useForm(form);
  });
}
