/* A transcript: the prompt folded, actions as cards, replies as tables with their JSON a click away. */
const LONG = 1600;

function conversation(block, context) {
  const decides = new Set(block.decides), injected = new Set(block.injected);
  const marks = (one) => [decides.has(textOf(one.effectiveDateTime)) ? "decides" : "", injected.has(`${one.resourceType}/${one.id}`) ? "injected instruction" : ""].filter(Boolean).join(", ");
  return section(block.title, block.messages.map((message, place) => turn(message, place, marks, context)));
}

function turn(message, place, marks, context) {
  const isAgent = message.role === "agent" || message.role === "answer" || message.role === "assistant";
  const text = message.text.startsWith("\0") ? context.preamble + message.text.slice(1) : message.text;
  const spent = [message.tokens ? `${thousands(message.tokens[0])} + ${thousands(message.tokens[1])} tokens` : null, message.seconds === null ? null : seconds(message.seconds)].filter(Boolean).join(" · ");
  const isPrompt = place === 0 && !isAgent;
  if (message.role === "requests") return h("div", { class: "turn" }, folded(text.split("\n", 1)[0], () => h("div", { class: "text mono" }, text.slice(text.indexOf("\n") + 1))));
  const body = isPrompt && text.length > 300 ? folded(`The prompt, ${thousands(text.length)} characters`, () => h("div", { class: "text mono" }, text)) : isAgent ? action(text) : reply(text, marks);
  return h("div", { class: isAgent ? "turn agent" : "turn" }, h("header", null, h("b", null, isPrompt ? "prompt" : message.role === "user" ? "environment" : message.role), spent ? h("span", null, spent) : null),
    message.reasoning ? folded(`Reasoning, ${thousands(message.reasoning.length)} characters`, () => h("div", { class: "text" }, message.reasoning)) : null, body);
}

function action(text) {
  const clean = text.trim().replace(/^```(?:tool_code)?\s*/, "");
  const found = /^(GET|POST|PUT|PATCH|DELETE)\s+(\S+)/.exec(clean), end = /^FINISH\(([\s\S]*)\)/.exec(clean);
  if (end) return h("p", null, h("span", { class: "verb" }, "FINISH"), h("span", { class: "mono" }, end[1]));
  if (!found) return text.includes("```") ? h("div", { class: "text mono" }, text) : long(text);
  const [path, query] = found[2].split(/\?(.*)/s), json = jsonIn(clean);
  const rest = clean.slice(found[0].length).trim();
  return [h("p", null, h("span", { class: "verb" }, found[1]), h("span", { class: "mono" }, path)),
    query ? h("div", { class: "params mono" }, query.split("&").map((part) => h("span", null, decoded(part)))) : null,
    rest ? (json ? folded(summary(json.value), () => laidOut(json.value)) : h("div", { class: "text mono" }, rest)) : null];
}

/* A resource in a line: its type, and what its columns say. */
function summary(value) {
  const columns = COLUMNS[value?.resourceType] || [];
  return [textOf(value?.resourceType) || "JSON", ...columns.map(([, cell]) => cell(value))].filter(Boolean).join(" · ");
}

function decoded(part) {
  try { return decodeURIComponent(part.replace(/\+/g, " ")); } catch { return part; }
}

function reply(text, marks) {
  const json = jsonIn(text);
  if (!json || typeof json.value !== "object") return long(text);
  const isBundle = json.value.resourceType === "Bundle";
  const words = [json.before.trim(), json.after.trim()].map((part) => (part ? h("p", { class: "quiet" }, part.length > LONG ? `${part.slice(0, LONG)}…` : part) : null));
  const mark = isBundle ? "" : marks(json.value);
  const shown = isBundle ? bundle(json.value, marks) : mark ? h("p", null, h("mark", null, mark)) : null;
  return [words[0], shown, folded(isBundle ? "The JSON" : `JSON, ${thousands(json.raw.length)} characters`, () => laidOut(json.value), !isBundle && json.raw.length < 900), words[1]];
}

const long = (text) => (text.length > LONG ? [h("div", { class: "text" }, `${text.slice(0, 400)}…`), folded(`All ${thousands(text.length)} characters`, () => h("div", { class: "text mono" }, text))] : h("div", { class: "text" }, text));
