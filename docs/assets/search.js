// The search treats a leading minus sign as "without this word". People search for flags: --updates_per_step.
document.addEventListener("input", (event) => {
  const input = event.target;
  if (input.matches?.("input[data-md-component=search-query]") && /(^|\s)-+/.test(input.value)) {
    input.value = input.value.replace(/(^|\s)-+/g, "$1");
  }
}, true);
