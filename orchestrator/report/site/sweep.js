"use strict";
// The plots of a sweep: a heat map of two axes, and a measure over one. Axes that are not drawn are held at a value,
// or all their points are averaged.
(() => {
  const { axes, metrics, points } = candela;
  const all = "all";
  const colours = Array.from({ length: 8 }, (_, i) => `var(--s${i})`); // of the style sheet

  const svgNode = (tag, attributes, ...children) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) {
      node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
  };
  const titled = (node, text) => {
    node.append(svgNode("title", {}, text));
    return node;
  };

  // three prints a number with three significant digits.
  function three(v) {
    if (v === 0) {
      return "0";
    }
    if (Math.abs(v) >= 1000) {
      return Math.abs(v) >= 1e15 ? v.toExponential(2) : String(Math.round(v)).replace(/\B(?=(\d{3})+$)/g, ",");
    }
    return String(Number(v.toPrecision(3)));
  }
  function scaled(v, steps) {
    for (const [size, name] of steps) {
      if (Math.abs(v) >= size) {
        return Number((v / size).toPrecision(3)) + " " + name;
      }
    }
    return three(v) + " " + steps[steps.length - 1][1];
  }
  function text(v, unit) {
    switch (unit) {
      case "ns": return v === 0 ? "0" : scaled(v, [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]]);
      case "bps": return scaled(v, [[1e9, "Gb/s"], [1e6, "Mb/s"], [1e3, "kb/s"], [1, "b/s"]]);
      case "bytes": return three(v) + " B";
      case "count": case "": return three(v);
    }
    return three(v) + " " + unit;
  }

  function fill(select, entries, chosen) {
    for (const [value, label] of entries) {
      const option = make("option", "", label);
      option.value = value;
      option.selected = String(value) === String(chosen);
      select.append(option);
    }
  }

  // fixed makes a choice for each axis that is not drawn. It keeps what was chosen before.
  function fixed(box, drawn, changed) {
    const before = {};
    for (const select of box.querySelectorAll("select")) {
      before[select.dataset.axis] = select.value;
    }
    box.replaceChildren();
    axes.forEach((axis, a) => {
      if (drawn.includes(a)) {
        return;
      }
      const select = make("select", "");
      select.dataset.axis = a;
      fill(select, [[all, "all, averaged"], ...axis.values.map((v, i) => [i, v])], before[a] ?? all);
      select.addEventListener("change", changed);
      box.append(make("label", "", last(axis.path) + " ", select));
    });
  }
  const chosen = (box) => [...box.querySelectorAll("select")].filter((s) => s.value !== all)
    .map((s) => [Number(s.dataset.axis), Number(s.value)]);
  const last = (path) => path.slice(path.lastIndexOf(".") + 1);
  const where = (point) => axes.map((axis, a) => last(axis.path) + " " + axis.values[point.at[a]]).join(", ") +
    (point.repeat ? ", repeat " + point.repeat : "");
  const mean = (values) => values.reduce((sum, v) => sum + v, 0) / values.length;

  // figure is a captioned drawing that scrolls where it does not fit.
  function figure(box, title, svg, ...legend) {
    const scroll = make("div", "scroll", svg);
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", title);
    box.replaceChildren(make("figure", "", make("figcaption", "", make("b", "", title), ...legend), scroll));
  }
  const nothing = (box) => box.replaceChildren(make("p", "pale", "No point has this measure."));

  const axisTitle = (a) => a < 0 ? "" : axes[a].path;
  const metricTitle = (m) => metrics[m].name;

  /* Heat map */

  const map = {
    metric: document.getElementById("map-metric"), x: document.getElementById("map-x"),
    y: document.getElementById("map-y"), fixed: document.getElementById("map-fixed"),
    box: document.getElementById("map-figure"),
  };
  const verdict = "verdict";

  function cellsOf(x, y, filter) {
    const cells = new Map();
    for (const point of points) {
      if (!filter.every(([a, v]) => point.at[a] === v)) {
        continue;
      }
      const key = point.at[x] + "/" + (y < 0 ? 0 : point.at[y]);
      if (!cells.has(key)) {
        cells.set(key, []);
      }
      cells.get(key).push(point);
    }
    return cells;
  }

  function drawMap() {
    const x = Number(map.x.value);
    const y = Number(map.y.value);
    fixed(map.fixed, [x, y], drawMap);
    const cells = cellsOf(x, y, chosen(map.fixed));
    const byVerdict = map.metric.value === verdict;
    const metric = Number(map.metric.value);
    const values = new Map();
    if (!byVerdict) {
      for (const [key, inside] of cells) {
        const numbers = inside.map((p) => p.values[metric]).filter((v) => v !== null);
        if (numbers.length > 0) {
          values.set(key, mean(numbers));
        }
      }
      if (values.size === 0) {
        nothing(map.box);
        return;
      }
    }
    const low = Math.min(...values.values());
    const high = Math.max(...values.values());
    const logarithmic = low > 0 && high / low >= 30;
    const share = (v) => high === low ? 0.5
      : logarithmic ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low);
    const unit = byVerdict ? "" : metrics[metric].unit;
    const columns = axes[x].values;
    const rows = y < 0 ? [""] : axes[y].values;
    const label = (key, inside) => byVerdict ? verdictText(inside) : values.has(key) ? text(values.get(key), unit) : "–";
    const longest = (list) => Math.max(1, ...list.map((s) => String(s).length));
    const texts = [...cells].map(([key, inside]) => label(key, inside));
    const wide = Math.max(54, 8 * Math.max(longest(columns), longest(texts)) + 14);
    const tall = 34;
    const rowTitle = y < 0 ? "" : last(axisTitle(y));
    const left = Math.max(24, 6.8 * Math.max(longest(rows), rowTitle.length) + 16);
    const top = 52;
    const width = Math.max(left + wide * columns.length + 12, 7 * axisTitle(x).length + left + 12);
    const height = top + tall * rows.length + 12;
    const title = byVerdict ? "Verdict" : metricTitle(metric);
    const svg = svgNode("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "fixed", role: "group",
      "aria-label": title + " over " + axisTitle(x) + (y < 0 ? "" : " and " + axisTitle(y)) });
    svg.append(svgNode("text", { x: left, y: 16, class: "title" }, axisTitle(x)),
      svgNode("text", { x: left - 8, y: 40, class: "title end" }, rowTitle));
    columns.forEach((v, i) => svg.append(svgNode("text", { x: left + wide * (i + 0.5), y: 40, class: "mid" }, v)));
    rows.forEach((v, i) => svg.append(svgNode("text", { x: left - 8, y: top + tall * (i + 0.5) + 4, class: "end" }, v)));
    for (const [key, inside] of cells) {
      const [i, j] = key.split("/").map(Number);
      svg.append(cell(key, inside, left + wide * i, top + tall * j, wide, tall));
    }
    function cell(key, inside, cx, cy) {
      const worst = worstOf(inside);
      const link = svgNode("a", { href: worst.page });
      const style = byVerdict ? verdictFill(inside)
        : values.has(key) ? `fill: var(--data); fill-opacity: ${(0.08 + 0.47 * share(values.get(key))).toFixed(3)}`
          : "fill: none";
      link.append(svgNode("rect", { x: cx + 1, y: cy + 1, width: wide - 2, height: tall - 2, rx: 2, style }));
      if (!byVerdict && worst.class !== "pass") {
        link.append(svgNode("rect", { x: cx + 2.5, y: cy + 2.5, width: wide - 5, height: tall - 5, rx: 2,
          class: worst.class === "fail" ? "failing" : "doubtful" }));
      }
      link.append(svgNode("text", { x: cx + wide / 2, y: cy + tall / 2 + 4, class: "cellvalue" }, label(key, inside)));
      const of = inside.length > 1 ? `, mean of ${inside.length} runs` : "";
      return titled(link, `${where(worst)}: ${worst.word}${byVerdict ? "" : ", " + label(key, inside) + of}`);
    }
    const legend = [];
    if (!byVerdict) {
      const unitText = logarithmic ? ", logarithmic colours" : "";
      legend.push(make("span", "pale", `${text(low, unit)} (pale) to ${text(high, unit)} (dark)${unitText}; ` +
        "a frame is a run that did not pass"));
    }
    figure(map.box, title + " by " + axisTitle(x) + (y < 0 ? "" : " and " + axisTitle(y)), svg, ...legend);
  }
  function worstOf(inside) {
    return inside.find((p) => p.class === "fail") || inside.find((p) => p.class !== "pass") || inside[0];
  }
  function verdictText(inside) {
    const worst = worstOf(inside);
    const same = inside.filter((p) => p.word === worst.word).length;
    return inside.length === 1 ? worst.word : `${same}/${inside.length} ${worst.word}`;
  }
  function verdictFill(inside) {
    const colour = { pass: "good", fail: "bad" }[worstOf(inside).class] || "warn";
    return `fill: var(--${colour}); fill-opacity: .24`;
  }

  /* Line plot */

  const line = {
    metric: document.getElementById("line-metric"), x: document.getElementById("line-x"),
    y: document.getElementById("line-y"), fixed: document.getElementById("line-fixed"),
    zero: document.getElementById("line-zero"), box: document.getElementById("line-figure"),
  };
  // The width is that of the place for it, so that its text is as large as all other.
  const frame = { width: 0, height: 380, left: 104, right: 24, top: 34, bottom: 56 };

  function seriesOf(metric, x, y, filter) {
    const series = new Map();
    for (const point of points) {
      const v = point.values[metric];
      if (v === null || !filter.every(([a, value]) => point.at[a] === value)) {
        continue;
      }
      const key = y < 0 ? 0 : point.at[y];
      if (!series.has(key)) {
        series.set(key, new Map());
      }
      const at = series.get(key);
      if (!at.has(point.at[x])) {
        at.set(point.at[x], []);
      }
      at.get(point.at[x]).push({ v, point });
    }
    return [...series].sort((a, b) => a[0] - b[0]);
  }

  // scaleX places the values of an axis: by number if all are numbers, otherwise evenly.
  function scaleX(axis) {
    const numbers = axis.values.map(Number);
    const numeric = axis.values.length > 1 && axis.values.every((v) => v.trim() !== "" && Number.isFinite(Number(v)));
    const room = frame.width - frame.left - frame.right - 40;
    if (!numeric) {
      const gap = room / Math.max(1, axis.values.length - 1);
      return { place: (i) => frame.left + 20 + (axis.values.length === 1 ? room / 2 : i * gap), note: "" };
    }
    const low = Math.min(...numbers);
    const high = Math.max(...numbers);
    const logarithmic = low > 0 && high / low >= 30;
    const f = logarithmic ? (v) => Math.log(v / low) / Math.log(high / low) : (v) => (v - low) / (high - low);
    return { place: (i) => frame.left + 20 + f(numbers[i]) * room, note: logarithmic ? ", logarithmic" : "" };
  }

  function ticks(low, high) {
    const power = 10 ** Math.floor(Math.log10((high - low) / 5));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => (high - low) / s <= 6);
    const list = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) {
      list.push(i * step);
    }
    return list;
  }

  // tickText prints a value of an axis with the digits that tell it from its neighbours.
  function tickText(v, step, most, unit) {
    const units = { ns: [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]],
      bps: [[1e9, "Gb/s"], [1e6, "Mb/s"], [1e3, "kb/s"], [1, "b/s"]] }[unit];
    const [size, name] = units ? units.find(([n]) => most >= n) || units[units.length - 1]
      : [1, unit === "bytes" ? "B" : unit === "count" ? "" : unit];
    const digits = Math.min(9, Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9)));
    const number = (v / size).toFixed(digits).replace(/^(-?\d+)/, (n) => n.replace(/\B(?=(\d{3})+$)/g, ","));
    return (number + " " + name).trim();
  }

  function drawLines() {
    frame.width = Math.max(340, Math.min(1106, line.box.clientWidth - 26));
    const metric = Number(line.metric.value);
    const x = Number(line.x.value);
    const y = Number(line.y.value);
    fixed(line.fixed, [x, y], drawLines);
    const series = seriesOf(metric, x, y, chosen(line.fixed));
    const values = series.flatMap(([, at]) => [...at.values()].flat().map((e) => e.v));
    if (values.length === 0) {
      nothing(line.box);
      return;
    }
    const unit = metrics[metric].unit;
    let low = Math.min(...values);
    let high = Math.max(...values);
    if (line.zero.checked || low > 0 && low < high / 3) {
      low = Math.min(0, low);
    }
    if (low === high) {
      [low, high] = low === 0 ? [0, 1] : [low - Math.abs(low) / 10, high + Math.abs(high) / 10];
    }
    const base = frame.height - frame.bottom;
    const placeY = (v) => base - (v - low) / (high - low) * (base - frame.top);
    const axis = scaleX(axes[x]);
    const title = `${metricTitle(metric)} over ${axisTitle(x)}`;
    const svg = svgNode("svg", { viewBox: `0 0 ${frame.width} ${frame.height}`, width: frame.width,
      height: frame.height, class: "fixed", role: "group", "aria-label": title });
    const marks = ticks(low, high);
    const step = marks.length > 1 ? marks[1] - marks[0] : high - low;
    for (const v of marks) {
      svg.append(svgNode("path", { class: "grid", d: `M${frame.left} ${placeY(v)}H${frame.width - frame.right}` }),
        svgNode("text", { class: "end", x: frame.left - 8, y: placeY(v) + 4 },
          tickText(v, step, Math.max(Math.abs(low), Math.abs(high)), unit)));
    }
    svg.append(svgNode("path", { class: "axis", d: `M${frame.left} ${frame.top}V${base}H${frame.width - frame.right}` }),
      svgNode("text", { class: "title", x: 8, y: 16 }, metricTitle(metric) + (unit === "count" ? " (count)" : "")),
      svgNode("text", { class: "title end", x: frame.width - frame.right, y: frame.height - 8 }, axisTitle(x) + axis.note));
    let free = -Infinity;
    const order = axes[x].values.map((v, i) => [axis.place(i), v]).sort((a, b) => a[0] - b[0]);
    for (const [at, v] of order) {
      const half = 3.6 * v.length + 4;
      svg.append(svgNode("path", { class: "axis", d: `M${at} ${base}v5` }));
      if (at - half >= free) {
        svg.append(svgNode("text", { class: "mid", x: at, y: base + 19 }, v));
        free = at + half;
      }
    }
    const legend = [];
    series.forEach(([key, at], n) => {
      const colour = colours[n % colours.length];
      const entries = [...at].map(([i, list]) => [axis.place(i), list]).sort((a, b) => a[0] - b[0]);
      svg.append(svgNode("path", { class: "series", style: "stroke: " + colour,
        d: entries.map(([px, list], i) => `${i ? "L" : "M"}${px} ${placeY(mean(list.map((e) => e.v)))}`).join("") }));
      for (const [px, list] of entries) {
        mark(svg, px, list, colour);
      }
      if (y >= 0) {
        const sample = svgNode("svg", { viewBox: "-7 -7 14 14", "aria-hidden": "true" },
          svgNode("path", { style: "stroke: " + colour, "stroke-width": 3, d: "M-7 0H7" }));
        legend.push(make("span", "legend", sample, last(axes[y].path) + " " + axes[y].values[key]));
      }
    });
    function mark(into, px, list, colour) {
      const numbers = list.map((e) => e.v);
      if (list.length > 1) {
        into.append(svgNode("path", { class: "series", style: "stroke: " + colour,
          d: `M${px} ${placeY(Math.min(...numbers))}V${placeY(Math.max(...numbers))}` }));
      }
      const worst = worstOf(list.map((e) => e.point));
      const dot = svgNode("circle", { cx: px, cy: placeY(mean(numbers)), r: 4.5,
        style: `fill: ${worst.class === "pass" ? colour : "var(--ground)"}; stroke: ${colour}; stroke-width: 2` });
      const of = list.length > 1 ? `, mean of ${list.length} runs` : "";
      into.append(titled(svgNode("a", { href: worst.page, "aria-label": where(worst) }, dot),
        `${where(worst)}: ${text(mean(numbers), unit)}${of}, ${worst.word}`));
    }
    if (points.some((point) => point.class !== "pass")) {
      legend.push(make("span", "pale", "a hollow point did not pass"));
    }
    figure(line.box, title, svg, ...legend);
  }

  /* Choices */

  const varied = axes.map((axis, a) => a).filter((a) => axes[a].values.length > 1);
  const [first, second] = [varied[0] ?? 0, varied[1] ?? -1];
  const axisEntries = axes.map((axis, a) => [a, axis.path]);
  const metricEntries = metrics.map((m, i) => [i, m.name]);
  const spread = (m) => {
    const values = points.map((p) => p.values[m]).filter((v) => v !== null);
    return values.length > 1 && Math.max(...values) > 1.05 * Math.min(...values);
  };
  const telling = metrics.findIndex((m, i) => (m.unit === "ns" || m.unit === "bps" || m.unit === "") && spread(i) &&
    m.name !== "duration");
  fill(map.metric, [[verdict, "verdict"], ...metricEntries], verdict);
  fill(map.x, axisEntries, second >= 0 ? second : first);
  fill(map.y, [[-1, "none"], ...axisEntries], second >= 0 ? first : -1);
  fill(line.metric, metricEntries, Math.max(telling, 0));
  fill(line.x, axisEntries, first);
  fill(line.y, [[-1, "nothing: one line"], ...axisEntries], second);
  const distinct = (group, changed, draw) => {
    // An axis cannot be drawn twice.
    if (group.x.value === group.y.value) {
      const other = changed === group.x ? group.y : group.x;
      const free = axes.findIndex((axis, a) => String(a) !== changed.value);
      other.value = other === group.y ? "-1" : String(Math.max(free, 0));
      if (group.x.value === group.y.value) {
        group.y.value = "-1";
      }
    }
    draw();
  };
  for (const [group, draw] of [[map, drawMap], [line, drawLines]]) {
    for (const select of [group.metric, group.x, group.y]) {
      select.addEventListener("change", () => distinct(group, select, draw));
    }
    draw();
  }
  line.zero.addEventListener("change", drawLines);
  window.addEventListener("resize", drawLines);
  for (const form of document.querySelectorAll("form.controls")) {
    form.addEventListener("submit", (event) => event.preventDefault());
  }
})();
