// The changes of a run's cases as a plot, drawn from the table of cases and following what that shows.
(() => {
  "use strict";

  const number = (text) => (text === "" || text === undefined ? null : Number(text));

  function caseOf(row) {
    const [name, judged, change, interval] = row.cells;
    const { verdict, ratio, low, high, threshold } = row.dataset;
    return {
      id: name.querySelector("a").textContent,
      href: name.querySelector("a").href,
      verdict,
      words: judged.querySelector(".verdict").textContent,
      ratio: number(ratio),
      ci: low === "" || high === "" ? null : [number(low), number(high)],
      threshold: Math.max(0, number(threshold)),
      said: `${change.textContent.trim()} ${interval.textContent.trim()}`,
    };
  }

  function start(figure) {
    const table = document.getElementById(figure.dataset.effects);
    const axis = document.createElement("div");
    const frame = document.createElement("div");
    frame.className = "plot-scroll";
    frame.tabIndex = 0;
    frame.setAttribute("role", "region");
    frame.setAttribute("aria-label", "Plot of all cases");
    figure.prepend(axis, frame);
    let rows = [...table.tBodies[0].rows];
    let waiting = 0;

    function draw() {
      const drawn = opduelDraw.effects(rows.map(caseOf), frame.clientWidth - 2, figure.dataset.plotClass);
      axis.replaceChildren(drawn.axis);
      frame.replaceChildren(drawn.svg);
      drawn.svg.addEventListener("click", (event) => {
        const found = drawn.caseAt(event.offsetY);
        if (found) location.assign(found.href);
      });
    }

    function soon() {
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(draw);
    }

    table.addEventListener("table:changed", (event) => {
      rows = event.detail.rows;
      soon();
    });
    window.addEventListener("resize", soon);
    soon();
  }

  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("figure[data-effects]").forEach(start));
})();
