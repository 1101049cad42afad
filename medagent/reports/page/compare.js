/* Several runs: a board, paired differences with their tests, what a rate cost. */
const probability = (p) => (p < 0.0001 ? "< 0.0001" : p.toFixed(4));
const signed = (value, measure) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${measure === "percent" ? (100 * Math.abs(value)).toFixed(1) : shownFigure(Math.abs(value), measure)}`;

function comparisonPanels(app) {
  if (!app.head.comparison) return null;
  return [board(app), pairsTable(app), h("div", { class: "columns" }, groupDifferences(app), costAgainstRate(app))];
}

function board(app) {
  const ranked = app.runs.map((run, place) => ({ run, place })).sort((a, b) => (b.run.value ?? -1) - (a.run.value ?? -1));
  return h("section", { class: "panel wide" }, h("h3", null, "Board"), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Board" }, h("table", null,
    h("thead", null, h("tr", null, ["", "run", app.runs[0].figure, "95%", "grounded", "n", "cost", "cost an item", "tokens"].map((name, place) => (name ? h("th", { class: place > 1 ? "num" : null, scope: "col" }, name) : h("td"))))),
    h("tbody", null, ranked.map(({ run, place }) => h("tr", null, h("td", null, h("span", { class: "letter" }, app.letter(place))), h("td", null, run.label), h("td", { class: "num" }, h("b", null, run.shown)), h("td", { class: "num" }, run.bounds || "–"), h("td", { class: "num" }, run.grounded || "–"),
      h("td", { class: "num" }, run.n), h("td", { class: "num" }, dollars(run.cost)), h("td", { class: "num" }, run.cost !== null && run.n ? dollars(run.cost / run.n) : "–"), h("td", { class: "num" }, run.tokens === null ? "–" : thousands(run.tokens))))))));
}

function pairsTable(app) {
  const pairs = app.head.comparison.pairs, several = pairs.some((pair) => pair.holm !== null), measure = app.runs[0].measure;
  const heads = ["pair", "items", "difference", "95%", "only the second better", "only the first better", "p", ...(several ? ["p by Holm"] : [])];
  return h("section", { class: "panel wide" }, h("h3", null, "Paired differences over the items that both have"), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Paired differences" }, h("table", null,
    h("thead", null, h("tr", null, heads.map((name, place) => h("th", { class: place ? "num" : null, scope: "col" }, name)))),
    h("tbody", null, pairs.map((pair) => h("tr", null, h("td", null, `${app.letter(pair.second)} − ${app.letter(pair.first)}`), h("td", { class: "num" }, pair.n), h("td", { class: "num" }, h("b", null, signed(pair.difference, measure))), h("td", { class: "num" }, `${signed(pair.low, measure)} to ${signed(pair.high, measure)}`),
      h("td", { class: "num" }, pair.gained), h("td", { class: "num" }, pair.lost), h("td", { class: "num" }, probability(pair.p)), several ? h("td", { class: "num" }, probability(pair.holm)) : null))))),
    legend("Intervals and p: these types, other patients; one test.", h("button", { type: "button", onclick: () => app.filter({ outcome: "flips" }) }, "Show the items that flip")));
}

function groupDifferences(app) {
  const measure = app.runs[0].measure;
  return app.head.comparison.pairs.filter((pair) => pair.first === 0 && pair.groups.length).map((pair) => {
    const rows = pair.groups, row = 22, left = 120, width = 560, right = 190, span = width - left - right, height = rows.length * row + 24;
    const most = Math.max(0.05, ...rows.flatMap((one) => [Math.abs(one.low), Math.abs(one.high)])), x = (value) => left + ((value + most) / (2 * most)) * span;
    return frame(`${app.letter(pair.second)} − ${app.letter(pair.first)} by group`, null, s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": rows.map((one) => `${one.name} ${signed(one.difference, measure)}`).join(", ") },
      s("line", { class: "ink", x1: x(0), x2: x(0), y1: 0, y2: height - 18, "stroke-dasharray": "3 3" }),
      rows.map((one, place) => { const y = place * row + 12; return [s("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, one.name.length > 17 ? `${one.name.slice(0, 16)}…` : one.name), s("line", { class: "axis", x1: left, x2: left + span, y1: y, y2: y }),
        s("line", { class: "acc", x1: x(one.low), x2: x(one.high), y1: y, y2: y, "stroke-width": 2.5 }), s("circle", { class: "fill", cx: x(one.difference), cy: y, r: 5 }),
        s("text", { x: left + span + 10, y: y + 4 }, signed(one.difference, measure), s("tspan", { class: "q" }, `  n ${one.n}, p ${probability(one.p)}`))]; }),
      s("text", { class: "q", x: x(-most), y: height - 4 }, `${app.letter(pair.first)} better`), s("text", { class: "q", x: x(most), y: height - 4, "text-anchor": "end" }, `${app.letter(pair.second)} better`)), legend("● difference, ─ 95 % interval; p belongs to the interval and is not adjusted"));
  });
}

function costAgainstRate(app) {
  const known = app.runs.map((run, place) => ({ run, place })).filter(({ run }) => run.cost !== null && run.value !== null && run.n);
  if (known.length < 2) return null;
  const width = 520, height = 260, left = 54, bottom = 40, most = Math.max(...known.map(({ run }) => run.cost / run.n), 1e-6) * 1.15;
  const roof = app.runs[0].measure === "percent" ? 1 : Math.max(...known.map(({ run }) => run.high ?? run.value)) * 1.1;
  const x = (value) => left + (value / most) * (width - left - 40), y = (value) => 12 + (1 - value / roof) * (height - bottom - 12);
  return frame("Cost against rate", null, s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": known.map(({ run }) => `${run.label}: ${run.shown} at ${dollars(run.cost / run.n)} an item`).join(", ") },
    axisTicks(0, roof).map((tick) => [s("line", { class: "axis", x1: left, x2: width - 20, y1: y(tick), y2: y(tick) }), s("text", { class: "q", x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, shownFigure(tick, app.runs[0].measure))]),
    axisTicks(0, most).map((tick) => s("text", { class: "q", x: x(tick), y: height - bottom + 18, "text-anchor": "middle" }, dollars(tick))), s("text", { class: "q", x: width / 2, y: height - 4, "text-anchor": "middle" }, "US dollars an item"),
    known.map(({ run, place }) => [run.low === null ? null : s("line", { class: "acc", x1: x(run.cost / run.n), x2: x(run.cost / run.n), y1: y(run.low), y2: y(run.high), "stroke-width": 2 }), s("circle", { class: "fill", cx: x(run.cost / run.n), cy: y(run.value), r: 6 }), s("text", { class: "strong", x: x(run.cost / run.n) + 10, y: y(run.value) + 4 }, app.letter(place))])));
}
