// Before anything is shown: what is only for pages without scripts is hidden, and so are the table's rows until all of
// them are there and the plot is drawn, or else a browser lays the table out again for each part of the page that it reads.
(() => {
  "use strict";
  const root = document.documentElement;
  root.classList.add("with-scripts", "loading");
  const show = () => root.classList.remove("loading");
  document.addEventListener("DOMContentLoaded", () => requestAnimationFrame(() => setTimeout(show)));
})();
