"use strict";
// Everything is put on the page as text (textContent), never as markup: it may hold anything.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.getElementById("explorer");
  if (!data.questions.length) return;
  const STEP = 100;
  const state = { system: data.systems.find((name) => name !== data.baseline) ?? data.baseline, measure: data.measures[0],
    text: "", column: "difference", up: true, shown: STEP, open: null };
  const rows = document.getElementById("explorer-rows");
  const panel = document.getElementById("explorer-panel");
  const make = (tag, text = "", name = "") => {
    const element = document.createElement(tag);
    element.textContent = text;
    if (name) element.className = name;
    return element;
  };
  const value = (question, system) => question.values[system][state.measure];
  const columns = {
    query: (question) => question.text,
    baseline: (question) => value(question, data.baseline),
    system: (question) => value(question, state.system),
    difference: (question) => value(question, state.system) - value(question, data.baseline),
    relevant: (question) => question.relevant,
  };
  const signed = (number) => (number > 0 ? "+" : "") + number.toFixed(4);

  const ranking = (question, system) => {
    const part = make("div");
    part.append(make("h4", `${system}: ${state.measure} ${value(question, system).toFixed(4)}`));
    const list = make("ol");
    for (const [id, grade] of question.rankings[system]) {
      const item = make("li");
      item.append(make("span", grade ?? "–", grade > 0 ? "grade yes" : "grade"));
      item.append(document.createTextNode(data.titles[id] ? `${id}: ${data.titles[id]}` : id));
      list.append(item);
    }
    part.append(question.rankings[system].length ? list : make("p", "nothing found", "dim"));
    return part;
  };
  const open = (question) => {
    state.open = question.id;
    panel.replaceChildren(make("h3", `${question.id}: ${question.text}`));
    const pair = make("div", "", "pair");
    for (const system of new Set([data.baseline, state.system])) pair.append(ranking(question, system));
    panel.append(pair);
    for (const row of rows.children) row.classList.toggle("open", row.dataset.id === question.id);
  };
  const draw = () => {
    const by = columns[state.column];
    const wanted = state.text.toLocaleLowerCase();
    const found = data.questions.filter((question) =>
      `${question.id} ${question.text}`.toLocaleLowerCase().includes(wanted));
    const order = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
    found.sort((a, b) => (state.up ? 1 : -1) * order(by(a), by(b)));
    rows.replaceChildren(...found.slice(0, state.shown).map((question) => {
      const row = make("tr");
      row.dataset.id = question.id;
      row.classList.toggle("open", question.id === state.open);
      const name = make("td", "", "name");
      const button = make("button", `${question.id}: ${question.text}`);
      button.type = "button";
      button.addEventListener("click", () => { open(question); panel.focus(); });
      name.append(button);
      const difference = columns.difference(question);
      row.append(name, make("td", columns.baseline(question).toFixed(4), "figure"),
        make("td", columns.system(question).toFixed(4), "figure"),
        make("td", signed(difference), "figure " + (difference > 0 ? "gain" : difference < 0 ? "loss" : "")),
        make("td", question.relevant, "figure"));
      return row;
    }));
    document.getElementById("found").textContent =
      `${Math.min(state.shown, found.length)} of ${found.length} queries shown`;
    document.getElementById("more").hidden = state.shown >= found.length;
    for (const button of root.querySelectorAll("th button")) {
      const on = button.dataset.column === state.column;
      button.parentElement.setAttribute("aria-sort", on ? (state.up ? "ascending" : "descending") : "none");
      button.querySelector("span").textContent = on ? (state.up ? " ▲" : " ▼") : "";
    }
    document.getElementById("system-heading").textContent = state.system;
    const current = data.questions.find((question) => question.id === state.open);
    if (current) open(current);
  };
  const choose = (id, names, key) => {
    const select = document.getElementById(id);
    select.replaceChildren(...names.map((name) => {
      const option = make("option", name);
      option.value = name;
      option.selected = name === state[key];
      return option;
    }));
    select.addEventListener("change", () => { state[key] = select.value; draw(); });
  };
  choose("choose-system", data.systems.filter((name) => name !== data.baseline || data.systems.length === 1), "system");
  choose("choose-measure", data.measures, "measure");
  document.getElementById("search").addEventListener("input", (event) => {
    state.text = event.target.value;
    state.shown = STEP;
    draw();
  });
  document.getElementById("more").addEventListener("click", () => { state.shown += STEP; draw(); });
  for (const button of root.querySelectorAll("th button")) {
    button.addEventListener("click", () => {
      state.up = button.dataset.column === state.column ? !state.up : true;
      state.column = button.dataset.column;
      draw();
    });
  }
  root.hidden = false;
  draw();
})();
