"use strict";
const charts = JSON.parse(document.getElementById("charts").textContent);
const options = { responsive: true, displayModeBar: false, scrollZoom: false, doubleClick: false };
const places = [...document.querySelectorAll(".chart")];
const folded = (place) => place.closest("details:not([open])");
const draw = (place) => {
  const chart = charts[place.dataset.chart];
  return Plotly.newPlot(place, chart.data, chart.layout, options);
};
const drawn = places.filter((place) => !folded(place)).map(draw);
for (const details of document.querySelectorAll("details")) {
  details.addEventListener("toggle", () => {
    Promise.all(places.filter((place) => !place.data && !folded(place)).map(draw)).then(show);
  });
}
function show() {
  const hidden = new Set([...document.querySelectorAll(".methods input:not(:checked)")].map((box) => box.value));
  for (const place of places.filter((place) => place.data)) {
    const shown = place.data.map((trace) => !hidden.has(trace.meta));
    const labels = (place.layout.annotations || []).map((label) => ({ ...label, visible: !hidden.has(label.name) }));
    Plotly.update(place, { visible: shown }, { annotations: labels });
  }
}
document.querySelector(".methods").addEventListener("change", show);
Promise.all(drawn).then(() => { document.body.dataset.ready = "true"; });
