/* Several runs: a board, paired differences with their tests, what a rate cost. */
const probability = (p) => (p < 0.0001 ? "< 0.0001" : p.toFixed(4));
const inPoints = (app) => (app.runs[0].measure === "score" ? "" : ", points");

function comparisonPanels(app, width) {
  if (!app.head.comparison) return null;
  return [board(app), pairsTable(app), h("div", { class: "columns" }, groupDifferences(app, width), costAgainstRate(app, width))];
}

function board(app) {
  const ranked = app.runs.map((run, place) => ({ run, place })).sort((a, b) => (b.run.value ?? -1) - (a.run.value ?? -1));
  return h("section", { class: "panel wide" }, h("h3", null, "Board"), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Board" }, h("table", null,
    h("thead", null, h("tr", null, ["", "run", app.runs[0].figure, "95% interval", "data read", "n", "cost", "cost an item", "tokens"].map((name, place) => (name ? h("th", { class: place > 1 ? "num" : null, scope: "col" }, name) : h("td"))))),
    h("tbody", null, ranked.map(({ run, place }) => h("tr", null, h("td", null, h("span", { class: "letter" }, app.letter(place))), h("td", null, run.label), h("td", { class: "num" }, h("b", null, run.shown)), h("td", { class: "num" }, run.bounds || "–"), h("td", { class: "num" }, run.grounded || "–"),
      h("td", { class: "num" }, run.n), h("td", { class: "num" }, dollars(run.cost)), h("td", { class: "num" }, run.cost !== null && run.n ? dollars(run.cost / run.n) : "–"), h("td", { class: "num" }, run.tokens === null ? "–" : thousands(run.tokens))))))));
}

function pairsTable(app) {
  const pairs = app.head.comparison.pairs, several = pairs.some((pair) => pair.holm !== null), measure = app.runs[0].measure;
  const heads = ["pair", "items", `difference${inPoints(app)}`, "95% interval", "only the second better", "only the first better", "p", ...(several ? ["p by Holm"] : [])];
  return h("section", { class: "panel wide" }, h("h3", null, "Paired differences over the items that both have"), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Paired differences" }, h("table", null,
    h("thead", null, h("tr", null, heads.map((name, place) => h("th", { class: place ? "num" : null, scope: "col" }, name)))),
    h("tbody", null, pairs.map((pair) => h("tr", null, h("td", { class: "pair" }, `${app.letter(pair.second)} − ${app.letter(pair.first)}`), h("td", { class: "num" }, pair.n), h("td", { class: "num" }, h("b", null, signed(pair.difference, measure))), h("td", { class: "num" }, `${signed(pair.low, measure)} to ${signed(pair.high, measure)}`),
      h("td", { class: "num" }, pair.gained), h("td", { class: "num" }, pair.lost), h("td", { class: "num" }, probability(pair.p)), several ? h("td", { class: "num" }, probability(pair.holm)) : null))))),
    legend("Intervals and p: these types, other patients; one test.", h("button", { type: "button", onclick: () => app.filter({ outcome: "flips" }) }, "Show the items that flip")));
}

function groupDifferences(app, width) {
  return app.head.comparison.pairs.filter((pair) => pair.first === 0 && pair.groups.length).map((pair) => {
    const most = Math.max(0.05, ...pair.groups.flatMap((one) => [Math.abs(one.low), Math.abs(one.high)]));
    const lines = pair.groups.map((one) => [one.name, one.n, one.difference, one.low, one.high, `p ${probability(one.p)}`]);
    return dots({ title: `${app.letter(pair.second)} − ${app.letter(pair.first)} by ${app.groupNoun.toLowerCase()}${inPoints(app)}`, lines, ends: [-most, most], signs: true, marks: [["no difference", 0]], group: true, figure: `difference: to the right ${app.letter(pair.second)} is better; p is not adjusted` }, { ...app.context(0), width });
  });
}

function costAgainstRate(app, space) {
  const known = app.runs.map((run, place) => ({ run, place })).filter(({ run }) => run.cost !== null && run.value !== null && run.n);
  if (known.length < 2) return null;
  const width = Math.min(520, space), height = 260, left = 54, bottom = 40, most = Math.max(...known.map(({ run }) => run.cost / run.n), 1e-6) * 1.15;
  const roof = app.runs[0].measure === "percent" ? 1 : Math.max(...known.map(({ run }) => run.high ?? run.value)) * 1.1;
  const x = (value) => left + (value / most) * (width - left - 40), y = (value) => 12 + (1 - value / roof) * (height - bottom - 12);
  return frame("Cost against rate", null, s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": known.map(({ run }) => `${run.label}: ${run.shown} at ${dollars(run.cost / run.n)} an item`).join(", ") },
    axisTicks(0, roof).map((tick) => [s("line", { class: "axis", x1: left, x2: width - 20, y1: y(tick), y2: y(tick) }), s("text", { class: "q", x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, shownFigure(tick, app.runs[0].measure))]),
    axisTicks(0, most).map((tick) => s("text", { class: "q", x: x(tick), y: height - bottom + 18, "text-anchor": "middle" }, dollars(tick))), s("text", { class: "q", x: width / 2, y: height - 4, "text-anchor": "middle" }, "US dollars an item"),
    known.map(({ run, place }) => [run.low === null ? null : s("line", { class: "acc", x1: x(run.cost / run.n), x2: x(run.cost / run.n), y1: y(run.low), y2: y(run.high), "stroke-width": 2 }), s("circle", { class: "fill", cx: x(run.cost / run.n), cy: y(run.value), r: 6 }), s("text", { class: "strong", x: x(run.cost / run.n) + 10, y: y(run.value) + 4 }, app.letter(place))])));
}
