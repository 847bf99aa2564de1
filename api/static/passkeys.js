// The one thing here that needs a script: nothing else may ask the browser for a passkey (https://www.w3.org/TR/webauthn-3/).
"use strict";

const form = document.getElementById("passkey");
const button = form.querySelector("button");
const problem = document.getElementById("problem");

function bytes(text) {
  const base64 = text.replaceAll("-", "+").replaceAll("_", "/");
  return Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
}

function text(buffer) {
  const binary = Array.from(new Uint8Array(buffer), (each) => String.fromCharCode(each)).join("");
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function read(options) {
  const listed = (all) => (all ?? []).map((each) => ({ ...each, id: bytes(each.id) }));
  const made = { ...options, challenge: bytes(options.challenge) };
  if (options.user) made.user = { ...options.user, id: bytes(options.user.id) };
  if (options.allowCredentials) made.allowCredentials = listed(options.allowCredentials);
  if (options.excludeCredentials) made.excludeCredentials = listed(options.excludeCredentials);
  return made;
}

function written(credential) {
  const response = {};
  for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature"]) {
    if (credential.response[name]) response[name] = text(credential.response[name]);
  }
  const id = text(credential.rawId);
  return JSON.stringify({ id, rawId: id, type: credential.type, clientExtensionResults: {}, response });
}

function tell(words) {
  problem.textContent = words;
  problem.hidden = false;
  button.disabled = false;
}

async function run() {
  button.disabled = true;
  problem.hidden = true;
  try {
    const publicKey = read(JSON.parse(form.dataset.options));
    const credential = await navigator.credentials[form.dataset.kind]({ publicKey });
    form.elements.passkey.value = written(credential);
  } catch (error) {
    if (error.name === "InvalidStateError") tell("This authenticator has a passkey for you here already.");
    else tell("The browser gave no passkey: it was cancelled, took too long, or there is none for this. Nothing was changed.");
    return;
  }
  form.submit();
}

document.getElementById("without-scripts").hidden = true;
if (window.PublicKeyCredential) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  run();
} else {
  tell("This browser has no passkeys at this address.");
  button.disabled = true;
}
