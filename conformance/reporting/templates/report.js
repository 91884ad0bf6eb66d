"use strict";
// The filters. Without this script everything is shown, which is why the form starts hidden.
(function () {
  const form = document.getElementById("filters");
  const runs = Array.from(document.querySelectorAll("[data-run]"));
  const parts = Array.from(document.querySelectorAll("[data-column]"));
  const count = document.getElementById("shown");

  function apply() {
    const column = form.elements.column.value;
    const verdicts = new Set(
      Array.from(form.querySelectorAll("input[name=verdict]:checked"), (box) => box.value)
    );
    const text = form.elements.text.value.trim().toLowerCase();
    for (const part of parts) {
      part.hidden = column !== "" && part.dataset.column !== column;
    }
    let shown = 0;
    for (const run of runs) {
      const wanted = verdicts.has(run.dataset.verdict) && run.dataset.run.toLowerCase().includes(text);
      run.hidden = !wanted;
      shown += wanted && run.closest("[data-column][hidden]") === null ? 1 : 0;
    }
    count.textContent = shown + " of " + runs.length + " runs shown";
  }

  function openTarget() {
    const target = document.getElementById(window.location.hash.slice(1));
    for (let part = target; part; part = part.parentElement) {
      if (part.tagName === "DETAILS") {
        part.open = true;
      }
    }
  }

  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", openTarget);
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((part) => { part.open = true; });
  });
  apply();
  openTarget();
})();
