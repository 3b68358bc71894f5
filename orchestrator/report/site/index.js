"use strict";
// The list of runs and its filters. The state is kept in the address, so that a filtered list can be sent to somebody.
(() => {
  const list = document.getElementById("list");
  if (!list) {
    return;
  }
  const step = 200;
  // What did not pass comes first, otherwise the order is that of the runs.
  const words = ["FAIL", "ERROR", "INVALID", "PASS", "REFUSED", "NOT RUN"].filter((w) => candela.runs.some((r) => r.word === w));
  const runs = words.flatMap((word) => candela.runs.filter((run) => run.word === word));
  const controls = {
    text: document.getElementById("text"), rule: document.getElementById("rule"),
    connection: document.getElementById("connection"),
  };
  const verdicts = new Set();
  let limit = step;

  for (const run of runs) {
    run.haystack = [run.name, run.file, run.group, run.point, run.brief, run.testbed, run.seed, run.word,
      ...(run.metadata || []), ...(run.findings || []).flatMap((f) => [f.rule, f.text])].join(" ").toLowerCase();
  }

  function options(select, values, label) {
    for (const value of values) {
      const option = make("option", "", label(value));
      option.value = value;
      select.append(option);
    }
  }
  const rules = [...new Set(runs.flatMap((run) => run.rules || []))].sort();
  options(controls.rule, rules, (rule) => rule);
  const connections = [...new Set(runs.flatMap((run) => run.connections || []))].sort((a, b) => a - b);
  options(controls.connection, connections, (n) => String(n));
  controls.rule.disabled = rules.length === 0;
  controls.connection.disabled = connections.length === 0;

  const chips = document.getElementById("verdicts");
  for (const word of words) {
    const chip = make("button", "chip " + runs.find((run) => run.word === word).class,
      word + " " + runs.filter((run) => run.word === word).length);
    chip.type = "button";
    chip.dataset.word = word;
    chip.setAttribute("aria-pressed", "false");
    chip.addEventListener("click", () => {
      if (!verdicts.delete(word)) {
        verdicts.add(word);
      }
      changed();
    });
    chips.append(chip);
  }

  function matches(run) {
    if (verdicts.size > 0 && !verdicts.has(run.word)) {
      return false;
    }
    if (controls.rule.value && !(run.rules || []).includes(controls.rule.value)) {
      return false;
    }
    if (controls.connection.value && !(run.connections || []).includes(Number(controls.connection.value))) {
      return false;
    }
    return controls.text.value.toLowerCase().split(/\s+/).every((word) => run.haystack.includes(word));
  }

  function findingLine(run, finding) {
    const link = make("a", "", finding.text || finding.rule);
    link.href = run.page + "#" + finding.anchor;
    const where = finding.connection ? " · " + run.flow + " " + finding.connection : "";
    return make("li", "", make("span", "word " + finding.word.toLowerCase(), finding.word), " ", link, " ",
      make("span", "pale small", make("span", "mono", finding.rule), where));
  }

  function row(run) {
    const link = make("a", "name", run.name);
    link.href = run.page;
    const facts = [run.name.includes("[") ? "" : run.point, run.group && !run.name.startsWith(run.group) ? run.group : "", run.packets &&
      run.packets + " packets in " + run.span, run.testbed, run.seed && "seed " + run.seed,
      ...(run.metadata || [])].filter(Boolean).join(" · ");
    const body = make("div", "run", make("div", "", link, " ", make("span", "pale small", facts)));
    const findings = run.findings || [];
    const loud = findings.filter((f) => f.word === "FAIL");
    const quiet = findings.filter((f) => f.word !== "FAIL");
    if (run.brief && (run.class !== "fail" || loud.length === 0)) {
      body.append(make("div", "small wrap", run.brief));
    }
    const first = 3;
    if (loud.length > 0) {
      const shown = make("ul", "found", ...loud.slice(0, first).map((f) => findingLine(run, f)));
      body.append(shown);
    }
    const rest = [...loud.slice(first), ...quiet];
    if (rest.length > 0 || run.more) {
      const details = make("details", "", make("summary", "", (rest.length + (run.more || 0)) +
        (loud.length > 0 ? " more" : "") + (rest.length + (run.more || 0) === 1 ? " finding" : " findings")));
      details.addEventListener("toggle", () => {
        if (details.open && details.childElementCount === 1) {
          details.append(make("ul", "found", ...rest.map((f) => findingLine(run, f))));
        }
      });
      body.append(details);
    }
    return make("li", run.class, make("span", "badge " + run.class, run.word), body);
  }

  function show() {
    const found = runs.filter(matches);
    list.replaceChildren(...found.slice(0, limit).map(row));
    document.getElementById("shown").textContent = found.length === runs.length
      ? runs.length + (runs.length === 1 ? " run" : " runs") : found.length + " of " + runs.length + " runs";
    document.getElementById("more").hidden = found.length <= limit;
  }

  function changed() {
    limit = step;
    for (const chip of chips.children) {
      chip.setAttribute("aria-pressed", String(verdicts.has(chip.dataset.word)));
    }
    const state = new URLSearchParams();
    if (verdicts.size > 0) {
      state.set("verdict", [...verdicts].join(","));
    }
    for (const [name, control] of Object.entries(controls)) {
      if (control.value) {
        state.set(name, control.value);
      }
    }
    history.replaceState(null, "", "#" + state);
    show();
  }

  function restore() {
    const state = new URLSearchParams(location.hash.slice(1));
    verdicts.clear();
    for (const word of (state.get("verdict") || "").split(",")) {
      if (words.includes(word)) {
        verdicts.add(word);
      }
    }
    for (const [name, control] of Object.entries(controls)) {
      control.value = state.get(name) || "";
    }
    changed();
  }

  for (const control of Object.values(controls)) {
    control.addEventListener("input", changed);
  }
  window.addEventListener("hashchange", restore);
  const form = document.getElementById("filters");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => {
    verdicts.clear();
    setTimeout(changed);
  });
  document.getElementById("more").addEventListener("click", () => {
    limit += step;
    show();
  });
  for (const button of document.querySelectorAll("button.pick")) {
    button.addEventListener("click", () => {
      controls.rule.value = button.dataset.rule;
      changed();
      document.getElementById("runs").scrollIntoView();
    });
  }
  restore();
})();
