"use strict";
// What a page can do beyond being read: the nearest point of a chart, long tables, copying.
// Everything is already drawn: without this script nothing is missing but these.

const SVG = "http://www.w3.org/2000/svg";

function make(tag, attributes = {}, text = "") {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

// -- charts: the text of the nearest point, by pointer or by arrow keys ---------------------------

function pointsOf(svg) {
  const found = [];
  for (const group of svg.querySelectorAll("g.line:not(.thin):not(.off)")) {
    const track = group.querySelector("polyline");
    const places = (track.dataset.k || "").split(" ").filter(Boolean).map(Number);
    Array.from(track.points).forEach((point, k) => {
      found.push({ x: point.x, y: point.y, line: Number(group.dataset.line), k: places.length ? places[k] : k });
    });
  }
  return found;
}

function interactive(figure) {
  const tips = JSON.parse(figure.querySelector("script.tips")?.textContent || "[]");
  const tip = make("div", { class: "tip", role: "status", hidden: "" });
  figure.append(tip);

  function say(svg, x, y, text) {
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    const origin = svg.getBoundingClientRect(), outer = figure.getBoundingClientRect();
    tip.hidden = false;
    tip.textContent = text;
    const left = origin.left - outer.left + x * scale + 12;
    tip.style.left = Math.max(4, Math.min(left, outer.width - tip.offsetWidth - 6)) + "px";
    tip.style.top = Math.max(0, origin.top - outer.top + y * scale - tip.offsetHeight - 12) + "px";
  }

  function leave() {
    tip.hidden = true;
    figure.querySelectorAll(".cursor, .dot").forEach((mark) => mark.remove());
  }

  function show(svg, point) {
    leave();
    const height = svg.viewBox.baseVal.height;
    const cursor = document.createElementNS(SVG, "line"), dot = document.createElementNS(SVG, "circle");
    const where = { x1: point.x, x2: point.x, y1: 24, y2: height - 42, class: "cursor" };
    for (const [name, value] of Object.entries(where)) cursor.setAttribute(name, value);
    for (const [name, value] of Object.entries({ cx: point.x, cy: point.y, r: 5, class: "dot" })) dot.setAttribute(name, value);
    svg.append(cursor, dot);
    say(svg, point.x, point.y, tips[point.line][point.k]);
    svg.dataset.at = point.line + " " + point.k;
  }

  for (const svg of figure.querySelectorAll("svg")) {
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
      const points = pointsOf(svg);
      if (points.length) {
        const far = (point) => Math.hypot(point.x - x, point.y - y);
        show(svg, points.reduce((best, point) => (far(point) < far(best) ? point : best)));
      } else if (event.target.dataset.tip) {
        say(svg, x, y, event.target.dataset.tip);
      } else {
        leave();
      }
    });
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      const move = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 0, ArrowUp: 0 }[event.key];
      const points = pointsOf(svg);
      if (move === undefined || !points.length) return;
      event.preventDefault();
      const now = points.findIndex((point) => point.line + " " + point.k === svg.dataset.at);
      if (now < 0) return show(svg, points[0]);
      if (move) {
        const next = points[now + move];
        return show(svg, next && next.line === points[now].line ? next : points[now]);
      }
      const lines = [...new Set(points.map((point) => point.line))];
      const step = event.key === "ArrowDown" ? 1 : lines.length - 1;
      const line = lines[(lines.indexOf(points[now].line) + step) % lines.length];
      const own = points.filter((point) => point.line === line);
      const far = (point) => Math.abs(point.x - points[now].x);
      show(svg, own.reduce((best, point) => (far(point) < far(best) ? point : best)));
    });
  }

  for (const key of figure.querySelectorAll(".key")) {
    key.addEventListener("click", () => {
      const off = key.getAttribute("aria-pressed") === "true";
      key.setAttribute("aria-pressed", String(!off));
      const colour = [...key.classList].find((name) => /^s\d$/.test(name));
      const dashed = key.classList.contains("dashed");
      figure.querySelectorAll("g.line." + colour).forEach((group) => {
        if (group.classList.contains("dashed") === dashed) group.classList.toggle("off", off);
      });
      leave();
    });
  }
}

// -- long tables: sort, search, continue ----------------------------------------------------------

function written(value, style) {
  if (value === null || value === undefined) return style ? "—" : "";
  if (style === "%") return (100 * value).toFixed(2) + " %";
  return style ? value.toLocaleString("en-US") : value;
}

function long(box) {
  const about = JSON.parse(box.querySelector("script").textContent);
  const body = box.querySelector("tbody"), heads = [...box.querySelectorAll("th")];
  const count = box.querySelector(".count");
  const what = about.what.replace(/^of \S+ /, "");
  const search = make("input", { type: "search", placeholder: "Search " + what, "aria-label": "Search " + what });
  const more = make("button", { type: "button", class: "more" }, "Show more");
  const state = { by: about.by, down: about.down, shown: about.shown, sorted: about.rows };

  function draw() {
    const wanted = search.value.toLowerCase();
    const rows = wanted
      ? state.sorted.filter((row) => row.some((cell, k) => !about.heads[k] && String(cell ?? "").toLowerCase().includes(wanted)))
      : state.sorted;
    body.replaceChildren(...rows.slice(0, state.shown).map((row) => {
      const line = document.createElement("tr");
      line.append(...row.map((cell, k) => make("td", about.heads[k] ? { class: "number" } : {}, written(cell, about.heads[k]))));
      return line;
    }));
    const first = Math.min(state.shown, rows.length);
    count.textContent = first.toLocaleString("en-US") + " of " + rows.length.toLocaleString("en-US") + " " + what;
    more.hidden = rows.length <= state.shown;
  }

  function sort(k) {
    state.down = state.by === k ? !state.down : Boolean(about.heads[k]) && k !== 1;
    state.by = k;
    const sign = state.down ? -1 : 1;
    state.sorted = [...about.rows].sort((a, b) => {
      if (a[k] === null || b[k] === null) return (a[k] === null) - (b[k] === null);
      return sign * (about.heads[k] ? a[k] - b[k] : String(a[k]).localeCompare(String(b[k]), "en", { numeric: true }));
    });
    mark();
    draw();
  }

  function mark() {
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[state.by].setAttribute("aria-sort", state.down ? "descending" : "ascending");
  }

  heads.forEach((head, k) => {
    const button = make("button", { type: "button" }, head.textContent);
    button.addEventListener("click", () => sort(k));
    head.replaceChildren(button);
  });
  mark();
  search.addEventListener("input", draw);
  more.addEventListener("click", () => { state.shown += 4 * about.shown; draw(); });
  if (about.rows.length > 10) {
    const tools = make("div", { class: "tools" });
    tools.append(search);
    box.prepend(tools);
  }
  count.after(more);
  more.hidden = about.rows.length <= about.shown;
}

// -- commands: copied by a click ------------------------------------------------------------------

function copied(block) {
  if (!navigator.clipboard) return;
  const button = make("button", { type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.querySelector("code").textContent);
    button.textContent = "Copied";
  });
  block.append(button);
}

document.querySelectorAll(".chart").forEach(interactive);
document.querySelectorAll(".long").forEach(long);
document.querySelectorAll("pre.command").forEach(copied);
