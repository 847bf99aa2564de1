// Single keys for people who decide a lot. Nothing is ever decided by one of them: they move, open and focus. They can be
// turned off (https://www.w3.org/WAI/WCAG22/Understanding/character-key-shortcuts.html).
"use strict";

const KEPT = "counterseal.keys";
const KEYS = [
  ["j, k", "the next and the previous request of a list"],
  ["Enter, o", "open it"],
  ["x", "select it, where it can be reviewed together with others"],
  ["u", "back to the inbox"],
  ["a", "to the button that approves; Enter then approves"],
  ["d", "to the reason to deny"],
  ["?", "this help"],
];

function make(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

const inUse = () => localStorage.getItem(KEPT) !== "off";

function helpOf() {
  const use = make("input", { type: "checkbox", checked: inUse() });
  use.addEventListener("change", () => localStorage.setItem(KEPT, use.checked ? "on" : "off"));
  const list = make("dl", { className: "pairs" });
  for (const [key, does] of KEYS) list.append(make("dt", {}, make("kbd", { textContent: key })), make("dd", { textContent: does }));
  const title = make("h2", { id: "keys-title", textContent: "Keys" });
  const close = make("button", { textContent: "Close" });
  const help = make("dialog", { className: "card" },
    title, list, make("label", { className: "choice" }, use, make("span", { textContent: "Use these keys" })),
    make("form", { method: "dialog" }, close));
  help.setAttribute("aria-labelledby", title.id);
  document.body.append(help);
  return help;
}

function opener(help) {
  const button = make("button", { type: "button", className: "plain key-help", textContent: "Keys" });
  button.addEventListener("click", () => help.showModal());
  document.querySelector(".who")?.before(button);
}

const listed = () => [...document.querySelectorAll("main .rows .what a")];

function move(by) {
  const links = listed();
  const at = links.findIndex((link) => link.closest("li").contains(document.activeElement));
  links[at < 0 ? 0 : Math.min(Math.max(at + by, 0), links.length - 1)]?.focus();
}

function select() {
  const box = document.activeElement.closest(".rows li")?.querySelector("input[type=checkbox]");
  if (box) box.checked = !box.checked;
}

function approve() {
  const button = document.querySelector("#decide button[value=approve], #decide button[formaction]");
  if (!button || button.disabled) return;
  // What has to be filled in before, such as a password.
  const missing = button.formNoValidate ? null : button.form.querySelector("input:invalid");
  if (missing) {
    missing.focus();
    return;
  }
  const hint = make("p", { className: "hint" });
  hint.setAttribute("role", "status");
  button.before(hint);
  hint.textContent = "Press Enter to approve. Nothing is decided before.";
  button.addEventListener("blur", () => hint.remove(), { once: true });
  button.focus();
}

function back() {
  const inbox = document.querySelector(".crumb a")?.getAttribute("href");
  location.assign(inbox?.startsWith("/?") ? inbox : "/");
}

const DOES = {
  j: () => move(1),
  k: () => move(-1),
  o: () => listed().find((link) => link === document.activeElement)?.click(),
  x: select,
  u: back,
  a: approve,
  d: () => document.querySelector("#decide #reason")?.focus(),
};

const help = helpOf();
opener(help);
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || typing || help.open || !inUse()) return;
  const does = event.key === "?" ? () => help.showModal() : DOES[event.key];
  if (!does) return;
  event.preventDefault();
  does();
});
