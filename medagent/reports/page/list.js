/* The items: an index that filters, sorts and searches; rows are made as they are scrolled to. */
const OUTCOME = ["correct", "score", "status", "kind", "reason", "because", "cost", "tokens", "seconds", "failed", "part", "owed", "finish", "grounded", "reading"];
const PAGE = 80;

const itemOf = ([name, trial, group, question, outcomes], place) => ({
  place, name, trial, group, question, label: trial > 1 ? `${name}.${trial}` : name,
  outcomes: outcomes.map((one) => one && Object.fromEntries(OUTCOME.map((key, at) => [key, one[at]]))),
});

const some = (item, test) => item.outcomes.some((one) => one && test(one));
const flips = (item) => new Set(item.outcomes.filter((one) => one && one.correct !== null).map((one) => one.correct)).size > 1;
const isLucky = (one) => one.correct === true && one.grounded === false;
/* Why an item is wrong, in a sentence; of a right item what decided, or the data that its agent had not read. */
const sentence = (one, kinds) => {
  if (one.correct) return isLucky(one) ? one.reading : one.because || one.reason;
  return one.reason && one.reason !== one.kind ? one.reason : kinds[one.kind] || one.reason;
};
const LUCKY = "right without reading";
const OUTCOMES = {
  right: (item) => some(item, (one) => one.correct === true), wrong: (item) => some(item, (one) => one.correct === false),
  [LUCKY]: (item) => some(item, isLucky),
  "not graded": (item) => some(item, (one) => one.correct === null && one.score === null), flips,
};
const WORST = "wrong or lowest first";
const SORTS = {
  [WORST]: (a, b) => score(a) - score(b), "order of the data": null, item: (a, b) => natural(a.label, b.label),
  "cost, highest first": (a, b) => sum(b, "cost") - sum(a, "cost"), "tokens, most first": (a, b) => sum(b, "tokens") - sum(a, "tokens"), "seconds, slowest first": (a, b) => sum(b, "seconds") - sum(a, "seconds"),
};
const score = (item) => Math.min(...item.outcomes.filter(Boolean).map((one) => one.score ?? (one.correct === null ? 2 : +one.correct)), 3);
const sum = (item, key) => item.outcomes.reduce((whole, one) => whole + ((one && one[key]) || 0), 0);

/* Items by kind of failure, the most frequent first; then those that are right, and those without a verdict. The first
   item of a group is typical: of the task type that is most frequent in it. */
function groupsOf(app, items) {
  const groups = new Map();
  for (const item of items) {
    const [one] = item.outcomes, [, word] = GLYPH[one.correct];
    const kind = one.correct === true ? "" : one.kind, name = isLucky(one) ? LUCKY : kind ? app.kindName(kind) : one.score === null ? word : "scored";
    const rank = one.correct === false ? 0 : isLucky(one) ? 1 : one.correct ? 2 : 3;
    if (!groups.has(name)) groups.set(name, { name, rank, words: app.head.kinds[kind] || "", items: [], drawn: 0 });
    groups.get(name).items.push(item);
  }
  for (const group of groups.values()) {
    const counts = new Map();
    for (const item of group.items) counts.set(item.group, (counts.get(item.group) || 0) + 1);
    const most = Math.max(...counts.values()), typical = group.items.find((item) => counts.get(item.group) === most);
    group.items = [typical, ...group.items.filter((item) => item !== typical)];
  }
  return [...groups.values()].sort((a, b) => a.rank - b.rank || b.items.length - a.items.length);
}

class List {
  constructor(app) {
    this.app = app;
    this.shown = app.items;
    this.drawn = 0;
    this.groups = []; // by kind of failure; empty for a list
    this.texts = null; // every message, in lower case, once somebody searches
    this.rows = h("div", { class: app.runs.length > 1 ? "rows two" : "rows", role: "list" });
    this.count = h("span", { id: "count", role: "status" });
    this.more = h("button", { type: "button", class: "more", onclick: () => this.draw(PAGE * 4) }, "More");
    new IntersectionObserver((seen) => { if (seen.some((one) => one.isIntersecting)) this.draw(PAGE); }).observe(this.more);
  }

  mount(place) {
    const { app } = this, items = app.items;
    const values = (list) => [...new Set(list)].filter(Boolean).sort(natural);
    const outcomes = items.flatMap((item) => item.outcomes.filter(Boolean));
    this.columns = columns(app);
    place.style.setProperty("--columns", this.columns.map((one) => one.width).join(" "));
    const choices = {
      outcome: ["wrong", "right", LUCKY, "not graded", ...(app.runs.length > 1 ? ["flips"] : [])].filter((name) => items.some(OUTCOMES[name])),
      group: values(items.map((item) => item.group)), kind: values(outcomes.map((one) => one.kind)),
      status: values(outcomes.map((one) => one.status)), check: values(outcomes.flatMap((one) => one.failed)), finish: values(outcomes.flatMap((one) => one.finish)),
    };
    this.words = { outcome: ["Outcome", "outcomes", String], group: [app.groupNoun, `${app.groupNoun}s`, (group) => app.named(group)], kind: ["Kind of failure", "kinds of failure", (kind) => app.kindName(kind)], status: ["Ended as", "endings", String], check: ["Failed check", "checks", String], finish: ["Finish reason", "finish reasons", String] };
    this.selects = Object.fromEntries(Object.entries(choices).map(([key, options]) => [key, h("select", { "data-filter": key, onchange: (event) => app.filter({ [key]: event.target.value }) }, h("option", { value: "" }, `all ${this.words[key][1].toLowerCase()}`), options.map((one) => h("option", { value: one }, this.words[key][2](one))))]));
    const sorts = Object.keys(SORTS).filter((name) => !/^(cost|tokens|seconds)/.test(name) || items.some((item) => sum(item, name.split(",")[0])));
    this.find = h("input", { type: "search", id: "find", placeholder: "in every message, / to begin", autocomplete: "off", oninput: () => this.typed() });
    place.append(h("h2", { id: "items-title" }, "Items"), h("div", { class: "filters" },
      h("label", { class: "find" }, "Text", this.find),
      Object.entries(this.selects).map(([key, select]) => (choices[key].length > 1 || (["outcome", "finish"].includes(key) && choices[key].length) ? h("label", null, this.words[key][0], select) : null)),
      h("label", null, "Sort", h("select", { id: "sort", onchange: (event) => app.filter({ sort: event.target.value }) }, sorts.map((name) => h("option", { value: name }, name))))),
      h("div", { class: "count" }, this.count, h("button", { type: "button", id: "clear", onclick: () => app.clear() }, "Clear filters")),
      h("div", { class: "rows head", "aria-hidden": "true" }, h("div", { class: "row" }, this.columns.map((one) => h("span", { class: one.kind }, one.name)))),
      this.rows, this.more);
  }

  typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.app.filter({ text: this.find.value.trim().toLowerCase() }), 120);
  }

  /* Filters at once by what the index holds; a text is also looked for in messages, which are unpacked at the first search. */
  async apply(filters) {
    const { app } = this, asked = (this.asked = {});
    for (const [key, select] of Object.entries(this.selects)) select.value = filters[key] || "";
    if (this.find.value.trim().toLowerCase() !== filters.text) this.find.value = filters.text;
    if (filters.text && !this.texts) this.texts = await app.texts();
    if (asked !== this.asked) return;
    const tests = [], known = new Map(); // trials share texts
    const holds = (text) => { let held = known.get(text); if (held === undefined) known.set(text, (held = text.includes(filters.text))); return held; };
    if (filters.outcome) tests.push(OUTCOMES[filters.outcome]);
    if (filters.group) tests.push((item) => item.group === filters.group);
    if (filters.kind) tests.push((item) => some(item, (one) => one.kind === filters.kind));
    if (filters.status) tests.push((item) => some(item, (one) => one.status === filters.status));
    if (filters.check) tests.push((item) => some(item, (one) => one.failed.includes(filters.check)));
    if (filters.finish) tests.push((item) => some(item, (one) => one.finish.includes(filters.finish)));
    if (filters.text) tests.push((item) => item.label.toLowerCase().includes(filters.text) || this.texts[item.place].some(holds));
    this.shown = app.items.filter((item) => tests.every((test) => test(item)));
    const order = SORTS[filters.sort];
    if (order) this.shown.sort(order);
    this.groups = app.runs.length === 1 && !tests.length && filters.sort === WORST ? groupsOf(app, this.shown) : [];
    if (this.groups.length < 2) this.groups = [];
    else this.shown = this.groups.flatMap((group) => group.items);
    const said = Object.entries(this.words).filter(([key]) => filters[key]).map(([key, [name, , words]]) => `${name.toLowerCase()} ${words(filters[key])}`).concat(filters.text ? `text “${filters.text}”` : []);
    this.count.textContent = `${thousands(this.shown.length)} of ${thousands(app.items.length)} items${said.length ? `: ${said.join("; ")}` : ""}`;
    this.count.dataset.text = filters.text;
    byId("clear").hidden = !tests.length;
    this.rows.replaceChildren(...this.groups.map((group) => this.group(group)));
    this.rows.setAttribute("role", this.groups.length ? "presentation" : "list");
    this.drawn = this.groups.length ? this.shown.length : 0;
    this.draw(PAGE);
    app.filtered();
  }

  draw(more) {
    const next = this.shown.slice(this.drawn, this.drawn + more);
    this.rows.append(...next.map((item) => this.row(item)));
    this.drawn += next.length;
    this.more.hidden = this.drawn >= this.shown.length;
    if (!this.shown.length) this.rows.append(h("p", { class: "quiet", role: "listitem" }, "No item is like this."));
  }

  /* A group: its name, its number of items, and its typical item; the others on request. */
  group(group) {
    group.rows = h("div", { role: "list" });
    group.more = h("button", { type: "button", onclick: () => this.drawGroup(group, PAGE) });
    this.drawGroup(group, 1);
    return h("section", { class: "kind-group" }, h("h3", null, `${group.name} `, h("span", { class: "n" }, thousands(group.items.length))), group.words ? h("p", { class: "quiet" }, group.words) : null, group.rows, group.more);
  }

  drawGroup(group, more) {
    const next = group.items.slice(group.drawn, group.drawn + more);
    group.rows.append(...next.map((item) => this.row(item)));
    group.drawn += next.length;
    const left = group.items.length - group.drawn;
    group.more.textContent = group.drawn === 1 ? `Show the other ${thousands(left)}` : `Show more of the other ${thousands(left)}`;
    group.more.hidden = !left;
  }

  /* Make rows until an item has one. */
  reach(item) {
    const group = this.groups.find((one) => one.items.includes(item));
    while (group && group.items.indexOf(item) >= group.drawn) this.drawGroup(group, PAGE);
    while (this.shown.indexOf(item) >= this.drawn && this.drawn < this.shown.length) this.draw(PAGE);
  }

  drawAll() {
    for (const group of this.groups) this.drawGroup(group, Infinity);
    this.draw(Infinity);
  }

  row(item) {
    const { app } = this;
    return h("div", { role: "listitem" }, h("a", { class: "row", href: app.link(item), "data-place": item.place, "aria-current": app.current === item ? "true" : null }, this.columns.map((one) => one.cell(item))));
  }
}

/* The columns that an item of these runs fills. */
function columns(app) {
  const several = app.runs.length > 1, known = (test) => app.items.some((item) => some(item, test)), first = (item) => item.outcomes.find(Boolean);
  const number = (name, width, words, isKnown) => ({ name, kind: "num", width, used: known(isKnown), cell: (item) => h("span", { class: "num" }, words(first(item)[name])) });
  return [
    { name: "", kind: "", width: several ? `${(known((one) => one.correct !== null) ? 2.6 : 4) * app.runs.length}rem` : "5.5rem", cell: (item) => h("span", null, marks(app, item)) },
    { name: "item", kind: "", width: `${Math.min(13, 1 + 0.65 * Math.max(...app.items.map((item) => item.label.length)))}rem`, cell: (item) => h("b", null, item.label) },
    { name: app.groupNoun.toLowerCase(), kind: "group", width: "11rem", used: app.items.some((item) => item.group), cell: (item) => h("span", { class: "group" }, app.head.groups[item.group] || item.group) },
    { name: "kind of failure", kind: "kind", width: "9rem", used: known((one) => one.kind || isLucky(one)), cell: (item) => h("span", { class: "kind" }, some(item, isLucky) ? LUCKY : [...new Set(item.outcomes.map((one) => one?.kind).filter(Boolean))].map((kind) => app.kindName(kind)).join(", ")) },
    { name: "why", kind: "why", width: "minmax(0, 1fr)", cell: (item) => h("span", { class: "why" }, why(app, item).slice(0, 300)) },
    number("seconds", "4rem", seconds, (one) => one.seconds >= 0.05), number("tokens", "4.5rem", (n) => (n === null ? "–" : thousands(n)), (one) => one.tokens !== null), number("cost", "4.5rem", dollars, (one) => one.cost !== null),
  ].filter((one) => one.used !== false);
}

/* The sentence of the first outcome that is lucky or wrong; otherwise the question. */
function why(app, item) {
  const outcomes = item.outcomes.filter(Boolean), telling = outcomes.find(isLucky) || outcomes.find((one) => one.correct === false);
  return (telling && sentence(telling, app.head.kinds)) || item.question || outcomes[0].reason;
}

function marks(app, item) {
  if (app.runs.length > 1) return item.outcomes.map((one, place) => [h("span", { class: "quiet" }, app.letter(place)), mark(one), " "]);
  const [one] = item.outcomes;
  return one.correct === null && one.score !== null ? one.score.toFixed(3) : [mark(one), " ", h("span", { class: GLYPH[one.correct][2] }, GLYPH[one.correct][1])];
}

function mark(one) {
  if (!one) return h("span", { class: "quiet", title: "not in this run" }, "·");
  const [glyph, word, kind] = one.correct === null && one.score !== null ? [one.score.toFixed(2), "score", "quiet"] : GLYPH[one.correct];
  return h("span", { class: kind, title: word }, glyph);
}
