/* The page: what is shown, by the address after #; keys; theme; printing. */
const KEYS = [["j  k", "next and previous item"], ["Enter", "open the item"], ["Esc", "back to the run, or clear the filters"], ["/", "search in every message"], ["?", "this list"]];
const NONE = { outcome: "", group: "", kind: "", status: "", check: "", finish: "", text: "", sort: WORST };

class App {
  constructor(head, items) {
    this.head = head;
    this.runs = head.runs;
    this.items = items;
    this.byLabel = new Map(this.items.map((item) => [item.label, item]));
    this.groupNoun = Object.keys(head.groups).length ? "Task type" : "Group";
    this.filters = { ...NONE };
    this.pressed = [];
    this.parts = new Map();
    this.elements = [...document.querySelectorAll("script.part")];
    this.title = document.title;
    this.current = null;
    this.cursor = null;
    this.list = new List(this);
  }

  letter(place) { return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[place % 26]; }
  link(item) { return `#${encodeURIComponent(item.label)}`; }
  /* A type of items with its name in words, if that says more. */
  named(group) { const words = this.head.groups[group]; return words && words !== group.replaceAll("_", " ") ? `${group} ${words}` : group; }
  /* The name of a kind of failure for people. */
  kindName(kind) { return this.head.names[kind] || kind; }
  context(run) { return { width: 560, named: (group) => this.named(group), measure: this.runs[run].measure, preamble: this.head.preambles[run], filter: (wanted) => { this.filter(wanted); byId("items").scrollIntoView({ block: "start" }); } }; }

  start() {
    this.list.mount(byId("items"));
    byId("panels").append(...panels(this));
    this.list.apply(this.filters);
    addEventListener("hashchange", () => this.route());
    document.addEventListener("keydown", (event) => this.key(event));
    addEventListener("beforeprint", () => this.unfold());
    byId("home").addEventListener("click", (event) => { event.preventDefault(); this.home(); });
    this.dialog();
    this.theme();
    this.route();
    document.documentElement.dataset.ready = "1";
    performance.mark("medagent-ready");
  }

  filter(wanted) { Object.assign(this.filters, wanted); return this.list.apply(this.filters); }
  toggle(wanted) {
    const on = Object.entries(wanted).every(([key, value]) => this.filters[key] === value);
    this.filter(on ? Object.fromEntries(Object.keys(wanted).map((key) => [key, ""])) : wanted);
  }
  clear() { return this.filter({ ...NONE, sort: this.filters.sort }); }
  filtered() { for (const each of this.pressed) each(); this.cursor = null; this.highlight(); }

  /* The blocks of an item in a run. Their part of the data is unpacked when it is first looked at. */
  async blocks(outcome) {
    if (!outcome || !outcome.part) return [];
    const [part, place] = outcome.part;
    if (!this.parts.has(part)) this.parts.set(part, unpack(this.elements[part]));
    return (await this.parts.get(part))[place];
  }

  /* Everything that was said, in lower case, by item: what a search looks in. */
  async texts() {
    byId("status").textContent = "Unpacking every message…";
    const found = this.items.map((item) => [item.question.toLowerCase(), ...item.outcomes.flatMap((one) => (one ? [one.reason.toLowerCase(), one.because.toLowerCase()] : []))]);
    const take = (value, into) => {
      if (typeof value === "string") { if (value.length > 1) into.push(value.toLowerCase()); }
      else if (Array.isArray(value)) for (const one of value) take(one, into);
      else if (value && typeof value === "object") for (const [key, one] of Object.entries(value)) if (key !== "name") take(one, into);
    };
    for (const item of this.items) for (const one of item.outcomes) take(await this.blocks(one), found[item.place]);
    byId("status").textContent = "";
    return found;
  }

  async route() {
    let name = location.hash.slice(1);
    try { name = decodeURIComponent(name); } catch { /* an address that is no encoded name is taken as it is */ }
    const item = this.byLabel.get(name) || (name.endsWith(".1") ? this.byLabel.get(name.slice(0, -2)) : undefined);
    this.current = item || null;
    document.body.classList.toggle("reading", Boolean(item));
    byId("item").hidden = !item;
    for (const row of document.querySelectorAll(".row[aria-current]")) row.removeAttribute("aria-current");
    if (!item) {
      byId("status").textContent = name ? `There is no item ${name} here.` : "";
      document.title = this.title;
      return;
    }
    byId("status").textContent = "";
    const row = this.rowOf(item);
    if (row) { row.setAttribute("aria-current", "true"); row.scrollIntoView({ block: "nearest" }); }
    await this.show(item);
  }

  rowOf(item) {
    this.list.reach(item);
    return this.list.rows.querySelector(`[data-place="${item.place}"]`);
  }

  async show(item) {
    const place = this.list.shown.indexOf(item), shown = this.list.shown;
    const blocks = await Promise.all(item.outcomes.map((one) => this.blocks(one)));
    if (this.current !== item) return;
    document.title = `${item.label} · ${this.title}`;
    const step = (to, name) => h("button", { type: "button", disabled: !shown[to], onclick: () => { location.hash = this.link(shown[to]); } }, name);
    const article = byId("item"), width = (byId("work").clientWidth || 900) - (innerWidth >= 1080 ? Math.max(300, innerWidth * 0.23) + 30 : 0);
    const views = item.outcomes.map((one, run) => (one ? this.view(item, one, blocks[run], { ...this.context(run), width: this.runs.length > 1 ? Math.max(320, width / this.runs.length - 30) : width }, run) : h("section", null, h("h3", null, `${this.letter(run)} ${this.runs[run].label}`), h("p", { class: "quiet" }, "Not in this run."))));
    article.replaceChildren(...[h("div", { class: "nav" }, h("button", { type: "button", onclick: () => this.home() }, "← The run"), step(place - 1, "Previous"), step(place + 1, "Next"), h("span", { class: "quiet" }, place < 0 ? "not among the filtered items" : `${place + 1} of ${shown.length}`)),
      this.runs.length > 1 ? h("div", { class: "headline" }, h("h2", { id: "item-title" }, item.label), h("span", { class: "quiet" }, this.named(item.group))) : null, h("div", { class: this.runs.length > 1 ? "runs-up" : null }, views)].filter(Boolean));
    scrollTo(0, 0);
    article.focus({ preventScroll: true });
    this.highlight();
  }

  view(item, one, blocks, context, run) {
    const [glyph, word, kind] = one.correct === null && one.score !== null ? ["", `score ${shownFigure(one.score, "score")}`, "na"] : GLYPH[one.correct];
    const badges = [h("span", { class: `badge ${kind}` }, `${glyph} ${word}`.trim()), one.correct === true && one.grounded !== null ? h("span", { class: `badge grounds ${one.grounded ? "ok" : "na"}` }, one.grounded ? "data read" : "data not read") : null];
    const took = [one.seconds >= 0.05 ? seconds(one.seconds) : null, one.tokens !== null ? `${thousands(one.tokens)} tokens` : null, one.cost !== null ? dollars(one.cost) : null].filter(Boolean).join(" · ");
    const title = this.runs.length > 1 ? h("h3", null, h("span", { class: "letter" }, this.letter(run)), ` ${this.runs[run].label}`) : [h("h2", { id: "item-title" }, item.label), h("span", { class: "quiet" }, this.named(item.group))];
    return h("section", null, h("div", { class: "headline" }, title, badges, took ? h("span", { class: "quiet" }, took) : null), this.verdict(one, kind),
      drawBlocks(blocks, context), blocks.length ? null : h("p", { class: "quiet" }, "Nothing more was kept of this item."));
  }

  /* One sentence why an item is wrong, or right; the rest of what is known on request. */
  verdict(one, kind) {
    const told = sentence(one, this.head.kinds);
    const details = [one.kind ? ["Kind of failure", `${this.kindName(one.kind)}: ${this.head.kinds[one.kind] || ""}`.replace(/: $/, "")] : null, one.because && !told.includes(one.because) ? ["What decided", one.because] : null, one.reading && !told.includes(one.reading) ? ["Data read", one.reading] : null,
      one.status && one.status !== "completed" ? ["Ended as", one.status] : null, one.failed.length ? ["Failed checks", one.failed.join(", ")] : null].filter(Boolean);
    return told || details.length ? h("div", { class: `why-box edge-${kind}` }, told ? h("p", null, told) : null,
      details.length ? folded("Details", () => h("dl", null, details.map(([name, text]) => [h("dt", null, name), h("dd", null, text)])), !told) : null) : null;
  }

  home() {
    const item = this.current;
    history.pushState(null, "", location.pathname + location.search);
    this.route();
    if (item) { const row = this.rowOf(item); if (row) row.focus(); }
  }

  move(by) {
    const shown = this.list.shown, from = shown.indexOf(this.current ?? this.cursor), item = shown[from < 0 ? 0 : from + by];
    if (!item) return;
    if (this.current) { location.hash = this.link(item); return; }
    this.cursor = item;
    const row = this.rowOf(item);
    if (row) row.focus();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "Escape") {
      if (typing) event.target.blur();
      else if (this.current) this.home();
      else this.clear();
    } else if (typing && event.key === "Enter") { event.target.blur(); this.move(1); }
    else if (typing) return;
    else if (event.key === "j") this.move(1);
    else if (event.key === "k") this.move(-1);
    else if (event.key === "/") { if (this.current && innerWidth < 1080) this.home(); this.list.find.focus(); this.list.find.select(); }
    else if (event.key === "?") byId("help").showModal();
    else return;
    event.preventDefault();
  }

  /* Marks what was searched for, in the item that is open; what is folded and holds it is opened. */
  highlight() {
    if (!globalThis.Highlight || !CSS.highlights) return;
    CSS.highlights.delete("found");
    const text = this.filters.text, article = byId("item");
    if (!text || !this.current) return;
    for (const fold of article.querySelectorAll("details")) { fold.build(); if (fold.textContent.toLowerCase().includes(text)) fold.open = true; }
    const ranges = [], walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node && ranges.length < 500; node = walker.nextNode()) {
      const lower = node.data.toLowerCase();
      for (let at = lower.indexOf(text); at >= 0; at = lower.indexOf(text, at + text.length)) { const range = new Range(); range.setStart(node, at); range.setEnd(node, at + text.length); ranges.push(range); }
    }
    CSS.highlights.set("found", new Highlight(...ranges));
  }

  unfold() {
    if (!this.current) this.list.drawAll();
    for (const fold of document.querySelectorAll("details")) { if (fold.build) fold.build(); fold.open = true; }
  }

  dialog() {
    const help = byId("help");
    help.append(h("h2", { id: "help-title" }, "Keys"), h("dl", null, KEYS.map(([keys, words]) => [h("dt", null, keys.split("  ").map((key) => [h("kbd", null, key), " "])), h("dd", null, words)])), h("button", { type: "button", onclick: () => help.close() }, "Close"));
    byId("keys").addEventListener("click", () => help.showModal());
  }

  theme() {
    const button = byId("theme"), root = document.documentElement, next = { auto: "light", light: "dark", dark: "auto" };
    button.addEventListener("click", () => { root.dataset.theme = next[root.dataset.theme]; button.textContent = `Theme: ${root.dataset.theme}`; });
  }
}

/* The page's data in an element: base64 of deflated JSON. */
async function unpack(element) {
  const raw = atob(element.textContent.trim()), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return JSON.parse(await new Response(stream).text());
}

/* The index of items comes in pieces; between two of them the browser may paint. */
async function itemsOf(elements) {
  const items = [];
  for (const element of elements) {
    for (const line of await unpack(element)) items.push(itemOf(line, items.length));
    element.remove();
    if (elements.length > 1) { byId("status").textContent = `Loading the items: ${thousands(items.length)}…`; await new Promise((go) => setTimeout(go)); }
  }
  byId("status").textContent = "";
  return items;
}

(async () => new App(await unpack(byId("index")), await itemsOf(document.querySelectorAll("script.items"))).start())().catch((error) => { byId("status").textContent = `This page could not be opened: ${error.message}`; throw error; });
