// A differential flame graph: a call's frames, as wide as one side takes, coloured by their change. Arrow keys move from
// frame to frame; a table has the same as text. It wants d3 and d3-flame-graph before it.
const opduelFlame = (() => {
  "use strict";

  const ROW = 20; // pixels a frame
  const NARROWEST = 0.6; // pixels
  const STRONGEST = 50; // % of the verdict's colour in a frame that one side alone has
  const HELP = "Arrow keys move, Enter zooms in, Backspace zooms out.";

  /** An element with attributes and children; texts are never read as markup. */
  function element(name, attributes, ...children) {
    const created = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value);
    created.append(...children);
    return created;
  }

  const change = (frame) => {
    if (!frame.control) return frame.treatment ? "new" : "";
    if (!frame.treatment) return "gone";
    const percent = 100 * (frame.treatment / frame.control - 1);
    if (Math.abs(percent) < 0.5) return "";
    if (percent >= 1000) return `x${Number((frame.treatment / frame.control).toPrecision(3))}`;
    return `${percent > 0 ? "+" : "\u2212"}${Math.abs(percent) < 10 ? Math.abs(percent).toFixed(1) : Math.round(Math.abs(percent))} %`;
  };

  /** Frames, depth first, as a tree: a line for each, with its depth, control, treatment and name. */
  function treeOf(frames) {
    const path = [];
    for (const [, depth, control, treatment, name] of frames.matchAll(/^(\d+) (\S+) (\S+) (.*)$/gm)) {
      const frame = { name, control: Number(control) || 0, treatment: Number(treatment) || 0, children: [] };
      path.length = Math.min(Number(depth), path.length);
      if (path.length) path[path.length - 1].children.push(frame);
      else if (path.root) continue; // not a tree: one frame has all others
      path.root = path.root || frame;
      path.push(frame);
    }
    return path.root;
  }

  /** The frames that a side has, as wide as that side takes. */
  function sideOf(frame, side) {
    const children = frame.children.filter((child) => child[side] > 0).map((child) => sideOf(child, side));
    return { name: frame.name, value: frame[side], frame, children };
  }

  function colour({ data: { frame } }) {
    const share = (frame.treatment - frame.control) / Math.max(frame.treatment, frame.control, Number.MIN_VALUE);
    const verdict = share > 0 ? "regressed" : "improved";
    return `color-mix(in srgb, var(--${verdict}) ${Math.round(STRONGEST * Math.abs(share))}%, var(--band))`;
  }

  /** The flame graph of one examination: {caption, frames, divisor, unit}. It draws itself when it is in the page. */
  function figure({ caption, frames, divisor, unit }) {
    const root = treeOf(frames);
    const amount = (value) => `${Number((value / divisor).toPrecision(3))} ${unit}`;
    const words = (frame) => {
      const both = `${frame.name}: ${amount(frame.control)} to ${amount(frame.treatment)} a call`;
      return change(frame) ? `${both}, ${change(frame)}` : both;
    };
    const place = element("div", { class: "flame", tabindex: "0", role: "application", "aria-label": `Flame graph: ${caption}. ${HELP}` });
    const status = element("p", { class: "flame-status", role: "status" });
    const graph = element("figure", { class: "flame-figure" }, element("figcaption", {}, legend(caption)), place, status, textOf(root, caption, amount));
    let side = root.treatment >= root.control ? "treatment" : "control";
    graph.querySelector("figcaption").append(sides(side, (chosen) => { side = chosen; drawAt(drawn); }));
    let chart = null;
    let chosen = null; // the node that has the focus
    let drawn = 0;

    const nodes = () => d3.select(place).select("svg").selectAll("g.frame");
    const isVisible = (node) => node.value > 0 && !node.data.hide;

    function choose(node, quietly = false) {
      chosen = node;
      nodes().classed("chosen", (node) => node === chosen);
      if (!quietly) status.textContent = words(node.data.frame);
      const frame = nodes().filter((node) => node === chosen).node();
      if (frame && !quietly) frame.scrollIntoView({ block: "nearest", inline: "nearest" });
    }

    function drawAt(width) {
      if (chart) chart.destroy();
      drawn = width;
      const data = sideOf(root, side);
      const deepest = d3.max(d3.hierarchy(data).descendants(), (node) => node.depth);
      chart = flamegraph.default().width(width).height((deepest + 1) * ROW).cellHeight(ROW).inverted(true).transitionDuration(0)
        .minFrameSize(NARROWEST).setColorMapper(colour)
        .getName(({ data: { frame } }) => [frame.name, change(frame)].filter(Boolean).join(" "))
        .label(({ data: { frame } }) => words(frame))
        .onClick((node) => choose(node))
        .onHover((node) => { status.textContent = words(node.data.frame); });
      d3.select(place).datum(data).call(chart);
      place.querySelector("svg").setAttribute("aria-hidden", "true");
      choose(d3.select(place).datum(), true);
      status.textContent = words(root);
      performance.mark("opduel-flame");
    }

    const ways = {
      ArrowDown: () => (chosen.children || []).find(isVisible),
      ArrowUp: () => chosen.parent,
      ArrowRight: () => beside(1),
      ArrowLeft: () => beside(-1),
      Home: () => d3.select(place).datum(),
    };

    function beside(by) {
      const all = chosen.parent ? chosen.parent.children.filter(isVisible) : [];
      return all[all.indexOf(chosen) + by];
    }

    place.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if (ways[event.key]) {
        const next = ways[event.key]();
        if (next) choose(next);
      } else if (event.key === "Enter" || event.key === " ") {
        chart.zoomTo(chosen);
        choose(chosen);
      } else if (event.key === "Backspace") {
        const here = chosen;
        chart.resetZoom(); // which chooses the whole call
        choose(here);
      } else {
        return;
      }
      event.preventDefault();
    });
    new ResizeObserver(() => {
      const width = Math.floor(place.clientWidth);
      if (width && width !== drawn) drawAt(width);
    }).observe(place);
    return graph;
  }

  function legend(caption) {
    const colours = element("span", { class: "legend" }, element("span", { class: "slower" }, "\u25A0 more"), element("span", { class: "faster" }, "\u25A0 less"));
    return element("span", {}, `${caption}: as wide as a frame and all within it take; `, colours);
  }

  /** Which side the widths are of. */
  function sides(first, choose) {
    const group = element("span", { class: "flame-sides", role: "group", "aria-label": "Widths" });
    for (const side of ["control", "treatment"]) {
      const button = element("button", { type: "button", class: "action", "aria-pressed": String(side === first) }, side);
      button.addEventListener("click", () => {
        for (const other of group.children) other.setAttribute("aria-pressed", String(other === button));
        choose(side);
      });
      group.append(button);
    }
    return group;
  }

  /** The frames as a table, filled when it is opened. */
  function textOf(root, caption, amount) {
    const details = element("details", {}, element("summary", {}, "The frames as a table"));
    details.addEventListener("toggle", () => {
      if (details.children.length > 1) return;
      const body = element("tbody", {});
      const add = (frame, depth) => {
        const name = element("th", { scope: "row" }, frame.name);
        name.style.paddingLeft = `${Math.min(depth, 30) * 0.6 + 0.5}rem`;
        const cells = [String(depth), amount(frame.control), amount(frame.treatment), change(frame) || "-"];
        body.append(element("tr", {}, name, ...cells.map((text) => element("td", { class: "number" }, text))));
        frame.children.forEach((child) => add(child, depth + 1));
      };
      add(root, 0);
      const head = ["frame", "depth", "control", "treatment", "change"].map((text) => element("th", { scope: "col" }, text));
      const table = element("table", {}, element("caption", {}, `${caption}, frame by frame`), element("thead", {}, element("tr", {}, ...head)), body);
      details.append(element("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": `${caption}, frame by frame` }, table));
    });
    return details;
  }

  return { figure };
})();
