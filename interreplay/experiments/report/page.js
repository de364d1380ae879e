"use strict";
const { methods, charts } = JSON.parse(document.getElementById("charts").textContent);
const form = document.querySelector(".choices");
const hidden = () => new Set([...form.querySelectorAll("[type=checkbox]:not(:checked)")].map((box) => Number(box.value)));
const format = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });
const steps = (value) => value.toLocaleString("en", { maximumFractionDigits: 0 });
const tip = document.body.appendChild(document.createElement("div"));
tip.id = "tip";
tip.hidden = true;
form.addEventListener("input", () => {
  const off = hidden();
  methods.forEach((_, i) => {
    for (const part of document.querySelectorAll(`.method${i}`)) part.style.display = off.has(i) ? "none" : "";
  });
});
function values(chart, position) {
  const x = chart.x[0] + position * (chart.x[1] - chart.x[0]);
  const off = hidden();
  const found = [];
  for (const [method, xs, ys, lows, highs] of chart.lines) {
    if (off.has(method)) continue;
    const distance = (i) => Math.abs(xs[i] - x);
    const i = [...xs.keys()].reduce((best, at) => (distance(at) < distance(best) ? at : best));
    if (ys[i] === null) continue;
    const band = lows[i] !== null ? ` [${format(lows[i])}, ${format(highs[i])}]` : "";
    found.push({ x: xs[i], distance: distance(i), text: `${methods[method]}: ${format(ys[i])}${band}` });
  }
  if (!found.length) return "";
  const nearest = found.reduce((best, point) => (point.distance < best.distance ? point : best)).x;
  const lines = found.map(({ x, text }) => (x === nearest ? text : `${text} at ${steps(x)}`));
  return [steps(nearest), ...lines].join("\n");
}
for (const place of document.querySelectorAll(".chart")) {
  const chart = charts[place.dataset.chart];
  const [left, top, width, height] = chart.box;
  const showValues = (event) => {
    const frame = place.getBoundingClientRect();
    const x = ((event.clientX - frame.left) / frame.width - left) / width;
    const y = ((event.clientY - frame.top) / frame.height - top) / height;
    tip.textContent = x < 0 || x > 1 || y < 0 || y > 1 ? "" : values(chart, x);
    tip.hidden = !tip.textContent;
    const right = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    tip.style.transform = `translate(${Math.max(8, right)}px, ${event.clientY + 14}px)`;
  };
  place.addEventListener("pointermove", showValues);
  place.addEventListener("pointerdown", showValues);
  place.addEventListener("pointerleave", () => { tip.hidden = true; });
}
