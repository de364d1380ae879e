"use strict";
const charts = JSON.parse(document.getElementById("charts").textContent);
const options = { responsive: true, displayModeBar: false, scrollZoom: false, doubleClick: false };
const places = [...document.querySelectorAll(".chart")];
const form = document.querySelector(".methods");
const slider = form.querySelector("[type=range]");
const unseen = (place) => place.closest("details:not([open]), [hidden]");
const draw = (place) => {
  const chart = charts[place.dataset.chart];
  return Plotly.newPlot(place, chart.data.map((trace) => ({ ...trace })), chart.layout, options);
};
const drawMissing = () => Promise.all(places.filter((place) => !place.data && !unseen(place)).map(draw));
for (const details of document.querySelectorAll("details")) {
  details.addEventListener("toggle", () => drawMissing().then(show));
}
function average(values, weight) {
  let last = 0, known = 0;
  return values.map((value) => {
    last = weight * last + (1 - weight) * value;
    known = weight * known + (1 - weight);
    return last / known;
  });
}
function smoothed(trace, weight) {
  if (!weight) return trace.y;
  if (trace.fill !== "toself") return average(trace.y, weight);
  const half = trace.y.length / 2, low = trace.y.slice(half).reverse();
  return [...average(trace.y.slice(0, half), weight), ...average(low, weight).reverse()];
}
function show() {
  const hidden = new Set([...form.querySelectorAll("[type=checkbox]:not(:checked)")].map((box) => box.value));
  const weight = Number(slider.value);
  return Promise.all(places.filter((place) => place.data).map((place) => {
    const chart = charts[place.dataset.chart];
    const shown = place.data.map((trace) => !hidden.has(trace.meta));
    const labels = (place.layout.annotations || []).map((label) => ({ ...label, visible: !hidden.has(label.name) }));
    const lines = chart.smooth ? { y: chart.data.map((trace) => smoothed(trace, weight)) } : {};
    return Plotly.update(place, { visible: shown, ...lines }, { annotations: labels });
  }));
}
function choose() {
  const axis = form.querySelector("[name=axis]:checked")?.value ?? "env_steps";
  for (const figure of document.querySelectorAll("[data-axis]")) figure.hidden = figure.dataset.axis !== axis;
  slider.nextElementSibling.value = Number(slider.value).toFixed(2);
  return drawMissing().then(show);
}
form.addEventListener("input", choose);
choose().then(() => { document.body.dataset.ready = "true"; });
