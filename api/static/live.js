// Looks again at a page on which something is being carried out, as long as nobody is busy with it.
"use strict";

const { seconds } = document.currentScript.dataset;

const busy = () => document.hidden || document.activeElement !== document.body || !getSelection().isCollapsed;

setInterval(() => {
  if (!busy()) location.reload();
}, seconds * 1000);
