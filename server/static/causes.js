// The flame graphs of a cause: loaded when asked for, and drawn below what their sources saw.
(() => {
  "use strict";

  async function load(button, status) {
    button.disabled = true;
    status.textContent = "Loading ...";
    const problem = await drawn(button).catch(() => "They could not be loaded: the server is not reached.");
    button.disabled = false;
    status.textContent = problem;
  }

  /** Draws them; what to say if there are none. */
  async function drawn(button) {
    const answer = await fetch(button.dataset.flames);
    if (answer.redirected) return "Log in again, then they can be drawn.";
    if (answer.status === 503) return "The server is busy with other large reports: try again later.";
    if (!answer.ok) return `They could not be loaded (status ${answer.status}).`;
    const graphs = await answer.json();
    const places = button.closest("details").querySelectorAll("[data-flame]");
    graphs.forEach((graph, number) => {
      if (graph) places[number].replaceChildren(opduelFlame.figure(graph));
    });
    if (!graphs.some(Boolean)) return "The report has no frames.";
    button.hidden = true;
    button.closest("details").querySelector(".flame").focus();
    return "";
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const button of document.querySelectorAll("button[data-flames]")) {
      button.hidden = false;
      button.addEventListener("click", () => load(button, button.parentElement.querySelector("[role=status]")));
    }
  });
})();
