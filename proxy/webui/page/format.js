// How values are written.

export const none = "–";

let utc = false;

export function setUTC(on) {
  utc = on;
}

export function zone() {
  return utc ? "UTC" : "local time";
}

function two(n, width = 2) {
  return String(n).padStart(width, "0");
}

// clock is the time of the day.
export function clock(at, millis = false) {
  const d = new Date(at);
  const [hour, minute, second] = utc
    ? [d.getUTCHours(), d.getUTCMinutes(), d.getUTCSeconds()]
    : [d.getHours(), d.getMinutes(), d.getSeconds()];
  return `${two(hour)}:${two(minute)}:${two(second)}` + (millis ? "." + two(d.getUTCMilliseconds(), 3) : "");
}

// moment is for a tooltip, to be found in logs.
export function moment(at) {
  return new Date(at).toISOString().replace("T", " ").replace("Z", " UTC");
}

export function count(n) {
  return n === null || n === undefined ? none : n.toLocaleString("en");
}

export function rate(n) {
  if (n === null || n === undefined) return none;
  if (n > 0 && n < 0.05) return "<\u00a00.1";
  return n > 0 && n < 10 ? n.toFixed(1) : Math.round(n).toLocaleString("en");
}

export function bytes(n) {
  if (n === null || n === undefined) return none;
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (n < 1000) return (unit === "B" || n >= 10 ? Math.round(n) : n.toFixed(1)) + " " + unit;
    n /= 1000;
  }
  return n.toFixed(1) + " TB";
}

export function millis(ms) {
  if (ms === null || ms === undefined) return none;
  if (ms < 1) return ms.toFixed(2) + " ms";
  if (ms < 10) return ms.toFixed(1) + " ms";
  if (ms < 10000) return Math.round(ms).toLocaleString("en") + " ms";
  return span(ms / 1000);
}

// span is a time in seconds.
export function span(seconds) {
  seconds = Math.max(0, seconds);
  if (seconds < 10) return seconds.toFixed(1) + " s";
  if (seconds < 120) return Math.round(seconds) + " s";
  if (seconds < 7200) return Math.round(seconds / 60) + " min";
  if (seconds < 48 * 3600) return Math.round(seconds / 3600) + " h";
  return Math.round(seconds / 86400) + " d";
}

export function part(n, of) {
  if (!of || !n) return "";
  const percent = (100 * n) / of;
  return percent < 0.1 ? "<\u00a00.1\u00a0%" : percent.toFixed(percent < 10 ? 1 : 0) + "\u00a0%";
}

// bound is a quantile of a histogram: it was no longer than that.
export function bound(ms, beyond) {
  if (ms === null || ms === undefined) return none;
  return (beyond ? "> " : "≤ ") + (ms >= 1000 ? ms / 1000 + " s" : ms + " ms");
}

export function plural(n, what) {
  return count(n) + " " + what + (n === 1 ? "" : "s");
}
