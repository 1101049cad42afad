/* FHIR in a message: its JSON found, a Bundle as a table, anything else as indented text. */
function jsonIn(text) {
  const starts = [...text.matchAll(/^[ \t]*[[{]/gm)].slice(0, 5).map((found) => found.index);
  if (text.startsWith("GET") || text.startsWith("FINISH")) return null;
  for (const start of starts) {
    const end = closing(text, start);
    if (end < 0) continue;
    try {
      return { before: text.slice(0, start), value: JSON.parse(text.slice(start, end)), raw: text.slice(start, end), after: text.slice(end) };
    } catch { /* not JSON after all: it is shown as text */ }
  }
  return null;
}

function closing(text, start) {
  let depth = 0, quoted = false;
  for (let i = start; i < text.length; i++) {
    const c = text[i];
    if (quoted) { if (c === "\\") i++; else if (c === '"') quoted = false; }
    else if (c === '"') quoted = true;
    else if (c === "{" || c === "[") depth++;
    else if ((c === "}" || c === "]") && --depth === 0) return i + 1;
  }
  return -1;
}

const textOf = (value) => (value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));
const concept = (value) => {
  if (!value || typeof value !== "object") return textOf(value);
  const coding = Array.isArray(value.coding) ? value.coding[0] || {} : {};
  return textOf(value.text || coding.display || coding.code || "");
};
const first = (value) => (Array.isArray(value) ? value[0] : value);
const quantity = (q) => (q && typeof q === "object" ? `${textOf(q.value)} ${textOf(q.unit || q.code)}`.trim() : "");
const dose = (r) => {
  const rate = first(first(r.dosageInstruction)?.doseAndRate) || {};
  return [quantity(rate.doseQuantity), quantity(rate.rateQuantity), textOf(concept(first(r.dosageInstruction)?.route))].filter(Boolean).join(", ");
};
const personName = (r) => { const n = first(r.name) || {}; return textOf(n.text || [...(n.given || []), n.family].filter(Boolean).join(" ")); };

/* The columns of each resource type; a type that is not here shows its id, code and status. */
const COLUMNS = {
  Observation: [["time", (r) => textOf(r.effectiveDateTime || r.effectivePeriod?.start)], ["code", (r) => concept(r.code)], ["value", (r) => quantity(r.valueQuantity) || textOf(r.valueString || concept(r.valueCodeableConcept))], ["status", (r) => textOf(r.status)]],
  Patient: [["id", (r) => textOf(r.id)], ["name", personName], ["birth date", (r) => textOf(r.birthDate)], ["gender", (r) => textOf(r.gender)]],
  Condition: [["recorded", (r) => textOf(r.onsetDateTime || r.recordedDate)], ["code", (r) => concept(r.code)], ["status", (r) => concept(r.clinicalStatus)]],
  MedicationRequest: [["authored", (r) => textOf(r.authoredOn)], ["medication", (r) => concept(r.medicationCodeableConcept)], ["dose", dose], ["status", (r) => textOf(r.status)]],
  Procedure: [["performed", (r) => textOf(r.performedDateTime || r.performedPeriod?.start)], ["code", (r) => concept(r.code)], ["status", (r) => textOf(r.status)]],
  ServiceRequest: [["authored", (r) => textOf(r.authoredOn)], ["code", (r) => concept(r.code)], ["priority", (r) => textOf(r.priority)], ["status", (r) => textOf(r.status)]],
};
const OTHER = [["id", (r) => textOf(r.id)], ["code", (r) => concept(r.code)], ["status", (r) => textOf(r.status)]];
const ROWS_AT_FIRST = 8;

function bundle(value, marks) {
  const entries = (Array.isArray(value.entry) ? value.entry : []).map((one) => one?.resource).filter((one) => one && typeof one === "object");
  const total = Number.isInteger(value.total) && value.total !== entries.length ? ` of ${value.total}` : "";
  if (!entries.length) return h("p", { class: "quiet" }, "A Bundle without an entry.");
  const kinds = new Map();
  for (const one of entries) kinds.set(textOf(one.resourceType), [...(kinds.get(textOf(one.resourceType)) || []), one]);
  return [...kinds].map(([kind, resources]) => {
    const columns = COLUMNS[kind] || OTHER;
    const isMarked = (one) => marks(one) !== "";
    const body = h("tbody");
    const line = (one) => h("tr", { class: isMarked(one) ? "decides" : null }, columns.map(([, cell]) => h("td", null, cell(one))), h("td", null, marks(one)));
    const head = resources.slice(0, ROWS_AT_FIRST), later = resources.slice(ROWS_AT_FIRST);
    body.append(...head.map(line), ...later.filter(isMarked).map(line));
    const hidden = later.filter((one) => !isMarked(one)).length;
    const more = hidden ? h("button", { type: "button", class: "more", onclick: () => { body.replaceChildren(...resources.map(line)); more.remove(); } }, `Show all ${resources.length}`) : null;
    return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${kind} resources` },
      h("p", { class: "cap" }, `Bundle: ${resources.length}${total} × ${kind}`),
      h("table", null, h("thead", null, h("tr", null, columns.map(([name]) => h("th", { scope: "col" }, name)), h("td"))), body), more);
  });
}

const laidOut = (value) => h("pre", null, JSON.stringify(value, null, 2));
