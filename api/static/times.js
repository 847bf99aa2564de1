// Times that the server writes in UTC, written in the reader's own zone. Their titles keep UTC.
"use strict";

const inTheirZone = new Intl.DateTimeFormat("en-GB", {
  day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short",
});

for (const time of document.querySelectorAll("time[data-absolute]")) {
  const at = new Date(time.dateTime);
  if (!Number.isNaN(at.getTime())) time.textContent = inTheirZone.format(at);
}
