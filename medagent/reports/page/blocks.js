/* One function a kind of block, by the names in `blocks.py`. */
const section = (title, ...content) => h("section", { class: "block" }, title ? h("h3", null, title) : null, content);

const BLOCKS = {
  text: (block) => {
    const body = () => h("div", { class: block.verbatim ? "text mono" : "text" }, block.text);
    return block.folded ? section(null, folded(block.title, body)) : section(block.title, body());
  },
  facts: (block) => section(block.title, h("table", null, h("tbody", null, block.facts.map(([name, value]) => h("tr", null, h("th", { scope: "row" }, name), h("td", null, value)))))),
  chart: strip, dots, shares, reliability, scatter,
  answer: (block) => {
    const free = block.accepted.length === 0, given = block.given ?? "none";
    const [best] = [...block.accepted].sort((a, b) => (b !== "[]") - (a !== "[]"));
    const isWrong = block.passed === false;
    return section("Answer", h("div", { class: "two-up" },
      h("div", null, h("p", { class: "cap" }, "answered ", h("span", { class: isWrong ? "no" : "ok" }, block.passed === null ? "" : isWrong ? "✗ does not count" : "✓ counts")), h("p", { class: "mono" }, isWrong ? marked(given, best) : given)),
      h("div", null, h("p", { class: "cap" }, free ? "what counts" : block.accepted.length > 1 ? "what counts, any of" : "what counts"),
        free ? h("p", null, "The answer does not count here.") : block.accepted.map((one) => h("p", { class: "mono" }, isWrong && one === best ? marked(one, given, "good") : one)))));
  },
  orders: (block) => section(`Orders: required and placed`, block.orders.map(order)),
  checks: (block) => {
    const failed = block.checks.filter((check) => !check[1]).length;
    return section(null, folded(`Checks: ${block.checks.length - failed} of ${block.checks.length} passed`, () => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Checks" }, h("table", null,
      h("thead", null, h("tr", null, ["result", "check", "expected", "actual"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, block.checks.map(([name, passed, expected, actual]) => h("tr", { class: passed ? null : "miss" }, h("td", { class: `stateword ${passed ? "ok" : "no"}` }, passed ? "✓" : "✗ fails"), h("td", null, name), h("td", { class: "mono" }, expected), h("td", { class: "mono" }, actual))))))));
  },
  record: (block) => section(block.title, block.writes.map(([url, resource, refused]) => h("div", { class: "turn" },
    h("p", null, h("span", { class: "verb" }, "POST"), url), refused ? h("p", { class: "no" }, `✗ not stored: ${refused}`)
      : h("p", { class: "ok" }, `✓ stored as ${textOf(resource.resourceType)}/${textOf(resource.id)}`),
    resource === null ? null : folded(refused ? "The posted resource" : "The resource as stored", () => laidOut(resource))))),
  verdicts: (block) => section("The rules differ on this item", h("table", null, h("tbody", null, block.verdicts.map(([name, correct, reason]) => h("tr", null, h("th", { scope: "row" }, name), h("td", { class: `stateword ${GLYPH[correct][2]}` }, `${GLYPH[correct][0]} ${GLYPH[correct][1]}`), h("td", null, reason)))))),
  sets: (block) => {
    const words = { found: ["✓ found", "ok"], missed: ["✗ missed", "no"], extra: ["+ extra", "na"] };
    const counts = Object.keys(words).map((state) => `${block.rows.filter((row) => row[0] === state).length} ${state}`).join(", ");
    return section(block.title, h("p", { class: "cap" }, [block.note, counts].filter(Boolean).join(" · ")), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": block.title }, h("table", null,
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "state"), block.columns.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, block.rows.map(([state, cells]) => h("tr", null, h("td", { class: `stateword ${words[state][1]}` }, words[state][0]), cells.map((cell) => h("td", null, cell))))))));
  },
  pair: (block) => section(null, h("div", { class: "two-up" }, [[block.left, block.right, "no"], [block.right, block.left, "good"]].map(([[title, text], [, other], kind]) =>
    h("div", null, h("p", { class: "cap" }, title), h("p", { class: "text" }, marked(text, other, kind === "good" ? "good" : null)))))),
  votes: (block) => section("Judges", block.votes.map(([judge, right, label, words]) => h("div", { class: "turn" }, h("header", null, h("b", null, judge), h("span", { class: right ? "ok" : right === false ? "no" : "na" }, `${right ? "✓" : right === false ? "✗" : "–"} ${label}`)), h("div", { class: "text" }, words)))),
  conversation,
};

const heads = () => h("thead", null, h("tr", null, h("td", { class: "glyph" }), ["field", "required", "placed"].map((name) => h("th", { scope: "col" }, name))));

function order(one) {
  const wrong = one.fields.filter((field) => !field.passed), right = one.fields.filter((field) => field.passed);
  const said = !one.is_due ? "was not due, and was placed" : !one.is_placed ? "was due, and was not placed" : wrong.length ? `${wrong.length} of ${one.fields.length} fields ${wrong.length > 1 ? "differ" : "differs"}` : `all ${one.fields.length} fields as required`;
  const lines = (fields) => fields.map((field) => h("tr", { class: field.passed ? null : "miss" },
    h("td", { class: `glyph ${field.passed ? "ok" : "no"}` }, field.passed ? "✓" : h("b", null, "✗")), h("td", null, field.path),
    h("td", { class: "mono", "data-as": "required" }, field.passed ? field.required : marked(field.required, field.placed, "good")), h("td", { class: "mono", "data-as": "placed" }, field.passed ? field.placed : marked(field.placed, field.required))));
  const table = (fields, caption) => h("table", { class: "order" }, caption, heads(), h("tbody", null, lines(fields)));
  const caption = h("caption", null, h("span", { class: one.is_due && one.is_placed && !wrong.length ? "ok" : "no" }, one.is_due && one.is_placed && !wrong.length ? "✓ " : "✗ "), `${one.title}: ${said}`);
  if (!one.is_due) return h("table", { class: "order" }, caption, heads(),
    h("tbody", null, one.others.map(([path, text]) => h("tr", { class: "miss" }, h("td", { class: "glyph no" }, "✗"), h("td", null, path), h("td", { "data-as": "required" }, "nothing"), h("td", { class: "mono", "data-as": "placed" }, text)))));
  if (!one.is_placed) return h("table", { class: "order" }, caption, heads(), h("tbody", null, one.fields.map((field) => h("tr", null, h("td", { class: "glyph no" }, "✗"), h("td", null, field.path), h("td", { class: "mono", "data-as": "required" }, field.required), h("td", { "data-as": "placed" }, "nothing")))));
  return h("div", { class: "order" }, wrong.length ? table(wrong, caption) : h("p", { class: "caption" }, [...caption.childNodes]), right.length ? folded(`${right.length} fields as required`, () => table(right)) : null,
    one.others.length ? folded(`${one.others.length} further ${one.others.length > 1 ? "fields" : "field"} that no rule looks at`, () => h("table", { class: "order" }, h("tbody", null, one.others.map(([path, text]) => h("tr", null, h("td", { class: "glyph" }, ""), h("td", null, path), h("td", { class: "mono" }, text)))))) : null);
}

const drawBlocks = (blocks, context) => blocks.map((block) => (BLOCKS[block.name] ? BLOCKS[block.name](block, context) : null));
