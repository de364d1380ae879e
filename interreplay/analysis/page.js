"use strict";
const charts = JSON.parse(document.getElementById("charts").textContent);
const options = { responsive: true, displayModeBar: false, scrollZoom: false, doubleClick: false };
const places = [...document.querySelectorAll(".chart")];
const drawn = places.map((place) => {
  const chart = charts[place.dataset.chart];
  return Plotly.newPlot(place, chart.data, chart.layout, options);
});
function show() {
  const hidden = new Set([...document.querySelectorAll(".methods input:not(:checked)")].map((box) => box.value));
  for (const place of places) {
    const shown = place.data.map((trace) => !hidden.has(trace.meta));
    const labels = (place.layout.annotations || []).map((label) => ({ ...label, visible: !hidden.has(label.name) }));
    Plotly.update(place, { visible: shown }, { annotations: labels });
  }
}
document.querySelector(".methods").addEventListener("change", show);
Promise.all(drawn).then(() => { document.body.dataset.ready = "true"; });
