/* The run: failure kinds that filter, trials as a matrix, what it cost, and the panels that its benchmark adds. */
function kindBars(app) {
  const counts = new Map(), set = new Map();
  for (const item of app.items) for (const one of item.outcomes) {
    if (!one) continue;
    if (one.owed || one.kind === "infrastructure") set.set(one.status, (set.get(one.status) || 0) + 1);
    else if (one.kind) counts.set(one.kind, (counts.get(one.kind) || 0) + 1);
  }
  if (!counts.size && !set.size) return null;
  const most = Math.max(...counts.values(), ...set.values());
  const bar = (name, n, words, filter, kind) => {
    const button = h("button", { type: "button", class: `bar ${kind}`, "aria-pressed": "false", onclick: () => app.toggle(filter) },
      h("b", null, name), h("span", { class: "n" }, n), h("span", { class: "track", "aria-hidden": "true" }, h("i", { style: `width:${(100 * n) / most}%` })), h("span", { class: "words" }, words));
    app.pressed.push(() => button.setAttribute("aria-pressed", String(Object.entries(filter).every(([key, value]) => app.filters[key] === value))));
    return h("li", null, button);
  };
  const sorted = (map) => [...map].sort((a, b) => b[1] - a[1]);
  return h("section", { class: "panel wide" }, h("h3", null, "Why not right"),
    counts.size ? h("ul", { class: "bars" }, sorted(counts).map(([kind, n]) => bar(app.kindName(kind), n, app.head.kinds[kind] || "", { kind }, ""))) : null,
    set.size ? [h("h3", { style: "margin-top:12px" }, "Set apart: infrastructure failed, nothing is held against the agent"), h("ul", { class: "bars" }, sorted(set).map(([name, n]) => bar(name, n, "owed: the run's command does it again", { status: name }, "set")))] : null,
    legend("Choose a bar to list its items below; choose it again to list all."));
}

/* Items × trials, for one run: those that flip first. */
function trialMatrix(app) {
  const trials = Math.max(...app.items.map((item) => item.trial), 1);
  if (trials < 2 || app.runs.length > 1) return null;
  const rows = new Map();
  for (const item of app.items) {
    if (!rows.has(item.name)) rows.set(item.name, new Array(trials).fill(undefined));
    rows.get(item.name)[item.trial - 1] = item;
  }
  const flips = (row) => new Set(row.filter(Boolean).map((item) => item.outcomes[0]?.correct).filter((one) => one !== null)).size > 1;
  const ordered = [...rows].sort((a, b) => flips(b[1]) - flips(a[1]));
  const flipping = ordered.filter(([, row]) => flips(row)).length;
  const line = ([name, row]) => h("a", { href: app.link(row.find(Boolean)), class: flips(row) ? "flip" : null },
    h("span", null, name), h("span", { class: "cells" }, row.map((item) => { const mark = GLYPH[item?.outcomes[0]?.correct ?? null]; return h("span", { class: mark[2], title: `trial ${item ? item.trial : "–"}: ${mark[1]}` }, mark[0]); }), flips(row) ? h("span", { class: "quiet" }, " flips") : null));
  return h("section", { class: "panel wide" }, h("h3", null, `${trials} trials: ${flipping} of ${rows.size} items flip`), h("div", { class: "matrix" }, ordered.slice(0, 120).map(line)),
    ordered.length > 120 ? folded(`The other ${ordered.length - 120} items`, () => h("div", { class: "matrix" }, ordered.slice(120).map(line))) : null, legend("✓ right", "✗ wrong", "– not graded; one mark a trial"));
}

/* Cost, tokens and seconds of right and wrong items: quartiles as a box, the median as a line. */
function effort(app, width) {
  const run = app.runs.length === 1 ? 0 : null;
  if (run === null) return null;
  const graded = app.items.map((item) => item.outcomes[0]).filter((one) => one && one.correct !== null);
  const measures = [["cost", dollars], ["tokens", thousands], ["seconds", seconds]].filter(([name, format]) => graded.filter((one) => one[name] && format(one[name]) !== format(0)).length > graded.length / 4);
  if (!measures.length || !graded.length) return null;
  const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  const rows = measures.flatMap(([name, format]) => [true, false].map((correct) => {
    const sorted = graded.filter((one) => one.correct === correct && one[name] !== null).map((one) => one[name]).sort((a, b) => a - b);
    return { name, format, correct, sorted };
  })).filter((row) => row.sorted.length);
  return h("section", { class: "panel" }, h("h3", null, "What right and wrong items took"), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "What right and wrong items took" }, h("table", null,
    h("thead", null, h("tr", null, h("td"), ["items", "lower quartile", "median", "upper quartile", "sum"].map((name, place) => h("th", { class: place > 0 ? "num" : null, scope: "col" }, name)))),
    h("tbody", null, rows.map((row) => h("tr", null, h("th", { scope: "row" }, `${row.name} `), h("td", { class: `stateword ${GLYPH[row.correct][2]}` }, `${GLYPH[row.correct][0]} ${row.sorted.length}`),
      [0.25, 0.5, 0.75].map((share) => h("td", { class: "num" }, row.format(quantile(row.sorted, share)))), h("td", { class: "num" }, row.format(row.sorted.reduce((a, b) => a + b, 0)))))))),
    effortPicture(graded, width));
}

/* Every graded item at its tokens (or seconds): right ones above the line, wrong ones below. */
function effortPicture(graded, space) {
  const name = graded.some((one) => one.tokens) ? "tokens" : "seconds", format = name === "tokens" ? thousands : seconds;
  const known = graded.filter((one) => one[name] !== null), most = Math.max(...known.map((one) => one[name]), 1e-9), width = Math.min(420, space), height = 92;
  if (known.length < 3) return null;
  const x = (value) => 66 + (value / most) * (width - 86);
  const dot = (one, place) => s("circle", { cx: x(one[name]), cy: (one.correct ? 22 : 56) + ((place * 7) % 17) - 8, r: 3, class: one.correct ? "fill" : "fillbad", "fill-opacity": .55 });
  return s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${name} of right and wrong items` },
    s("text", { x: 0, y: 26 }, "✓ right"), s("text", { x: 0, y: 60 }, "✗ wrong"), s("line", { class: "axis", x1: 60, x2: width - 10, y1: 39, y2: 39 }),
    known.slice(0, 1500).map(dot), axisTicks(0, most, 3).filter((tick, at, ticks) => !at || format(tick) !== format(ticks[at - 1])).map((tick) => s("text", { class: "q", x: x(tick), y: height - 6, "text-anchor": "middle" }, format(tick))));
}

function panels(app) {
  const several = app.runs.length > 1, wide = byId("panels").clientWidth || 900;
  const width = Math.min(640, Math.max(320, (wide > 900 ? (wide - 16) / 2 : wide) - 36));
  const columns = (drawn) => (drawn.length ? h("div", { class: "columns" }, drawn) : null);
  const own = app.runs.map((run, place) => {
    const drawn = drawBlocks(run.panels, { ...app.context(place), width });
    return several ? drawn.length ? [h("h2", null, h("span", { class: "letter" }, app.letter(place)), ` ${run.label}`), columns(drawn)] : null : columns([...drawn, effort(app, width)].filter(Boolean));
  });
  return [comparisonPanels(app, width), kindBars(app), trialMatrix(app), own].flat(3).filter(Boolean);
}
