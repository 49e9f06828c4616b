// The page: what is typed is sent to the server of this page, and its answer is shown stage by stage.
import { coloured } from "./colours.js";
import { rows } from "./diff.js";
import { inputOf, placeOf, render } from "./lessons.js";
import { pack, unpack } from "./share.js";
import { asCase, asCurl, asReview } from "./copies.js";

const $ = (id) => document.getElementById(id);
const parts = {
  object: "A manifest, several, or an AdmissionReview, as YAML or JSON. For a Deployment, usher reviews the pod that its controller would create. Namespaces, LimitRanges and PriorityClasses beside it count as stored.",
  old: "The object as it is stored, for an UPDATE. Empty: the same object.",
  policy: "The policy file of usher.",
  cluster: "Manifests that stand for the cluster: namespaces, nodes, profiles, quotas.",
};
const fields = ["path", "operation", "namespace", "subresource", "user", "groups", "gates"];
const titles = { object: "Object", old: "Stored object", policy: "Policy", cluster: "Cluster" };
let started = false; // what was kept is loaded
let lesson = null; // that is open: name, title, text, hints, files, shown hints
let input = empty(), tab = "object", answer = { problems: [], objects: [] }, shown = 0, examples = [];
let base = ""; // the example that was chosen last
let stage = null; // the name of the chosen step; null: the step that refuses, or what is stored

function empty() {
  return { object: "", old: "", policy: "", cluster: "", gates: "", operation: "CREATE", subresource: "", user: "", groups: "", namespace: "", dryRun: false, path: "" };
}

// element makes an element with a class and children, which are elements or text.
function element(name, className, ...children) {
  const e = document.createElement(name);
  if (className) e.className = className;
  e.append(...children);
  return e;
}

// first forgets which object and stage were chosen.
function first() { shown = 0; stage = null; }

function say(text) { $("said").textContent = text; }

// --- the input ---

function load(next) {
  lesson = null;
  $("lesson").value = $("record").value = "";
  for (const id of ["lesson-box", "lesson-bar"]) $(id).hidden = true;
  $("input-title").textContent = "What a user sends";
  input = { ...empty(), policy: start.facts.policy, ...Object.fromEntries(Object.entries(next).filter(([, value]) => value !== "")) };
  for (const f of fields) $(f).value = input[f];
  $("dryRun").checked = input.dryRun;
  tellRequest();
  makeTabs(Object.keys(titles));
  openTab("object");
  changed();
}

// given returns the input as it is sent, without a policy that is the default.
function given() {
  const { names, ...sent } = input;
  return { ...sent, policy: sent.policy === start.facts.policy ? "" : sent.policy };
}

// tellRequest says what is behind "more".
function tellRequest() {
  const routes = input.path ? input.path.startsWith("/") ? input.path : `the ${input.path} suite` : "all routes";
  $("sent-as").textContent = [input.operation + (input.subresource ? " " + input.subresource : "") + (input.user ? " by " + input.user : ""), routes, "feature gates"].join(", ");
}

// makeTabs makes the tabs: of the parts of an input, or of the files of a lesson.
function makeTabs(names) {
  $("tabs").replaceChildren(...names.map((name) => {
    const b = element("button", "", titles[name] || name);
    b.type = "button";
    b.id = "tab-" + name;
    b.dataset.tab = name;
    b.setAttribute("role", "tab");
    b.setAttribute("aria-controls", "pane");
    return b;
  }));
}

// openLesson shows a lesson, and its files in place of the parts of an input.
async function openLesson(name, files) {
  const r = await fetch("lessons/" + name);
  if (!r.ok) return load(start.input);
  const l = await r.json();
  load({});
  $("example").value = "";
  lesson = { ...l, files: { ...(files || l.files) }, shownHints: 0 };
  $("lesson").value = name;
  for (const id of ["lesson-box", "lesson-bar"]) $(id).hidden = false;
  $("input-title").textContent = `Lesson ${l.number}`;
  $("lesson-box").replaceChildren(...render(l.title, l.text));
  $("lesson-box").scrollTop = 0;
  $("lesson-said").textContent = l.needs ? `This lesson needs a ${l.needs}: do it with usherctl learn.` : "";
  const names = Object.keys(lesson.files).sort();
  makeTabs(names);
  useFiles();
  openTab(input.names.object || names[0]);
  changed();
}

// useFiles makes the input of the files of the lesson.
function useFiles() {
  input = { ...empty(), path: "core", ...inputOf(lesson.files) };
  for (const f of fields) $(f).value = input[f];
  tellRequest();
}

function openTab(name) {
  tab = name;
  for (const t of document.querySelectorAll("[role=tab]")) {
    const on = t.dataset.tab === name;
    t.setAttribute("aria-selected", on);
    t.tabIndex = on ? 0 : -1;
  }
  $("pane").setAttribute("aria-labelledby", "tab-" + name);
  $("about").textContent = lesson ? "" : parts[name];
  $("text").setAttribute("aria-label", titles[name] || name);
  $("text").value = lesson ? lesson.files[name] : input[name];
  $("text").scrollTop = 0;
  showProblems();
  keep();
}

function problemsOf(name) {
  const object = answer.objects[shown];
  const all = [...answer.problems, ...(object ? object.marks || [] : [])];
  if (lesson) return all.map((p) => ({ ...p, ...placeOf(p, lesson.files, input.names) })).filter((p) => p.tab === name);
  return all.filter((p) => (p.tab === "gates" ? "object" : p.tab) === name);
}

function showProblems() {
  for (const t of document.querySelectorAll("[role=tab]")) {
    const n = problemsOf(t.dataset.tab).length;
    t.querySelector(".count")?.remove();
    if (n > 0) t.append(element("span", "count", ` (${n})`));
  }
  const here = problemsOf(tab), marked = new Set(here.filter((p) => !p.warning).map((p) => p.line));
  const count = $("text").value.split("\n").length;
  $("numbers").replaceChildren(...Array.from({ length: count }, (_, i) => element("span", marked.has(i + 1) ? "marked" : "", String(i + 1))));
  if (document.activeElement !== $("text") && here.length) scrollTo(Math.min(...here.map((p) => p.line)));
  $("numbers").scrollTop = $("text").scrollTop;
  $("text").setAttribute("aria-invalid", marked.size > 0);
  $("problems").replaceChildren(...here.map((p) => {
    const b = element("button", p.warning ? "warn" : "", (p.line > 0 ? `line ${p.line}: ` : "") + p.text);
    b.type = "button";
    b.addEventListener("click", () => goTo(p.line));
    return element("li", "", b);
  }));
}

// goTo selects a line of the text.
function goTo(line) {
  const text = $("text"), before = text.value.split("\n").slice(0, Math.max(line, 1) - 1);
  const start = before.reduce((n, l) => n + l.length + 1, 0), end = text.value.indexOf("\n", start);
  text.focus();
  text.setSelectionRange(start, end < 0 ? text.value.length : end);
  scrollTo(line);
}

// scrollTo brings a line of the text into sight.
function scrollTo(line) {
  $("text").scrollTop = Math.max(0, line - 6) * parseFloat(getComputedStyle($("text")).lineHeight);
}

// --- the answer ---

let running = false, again = false;

// changed sends the input. While an answer is awaited, only the last change is kept.
async function changed() {
  keep();
  if (running) { again = true; return; }
  running = true;
  document.body.dataset.busy = "true";
  try {
    const r = await fetch("run", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(given()) });
    if (!r.ok) throw new Error(await r.text());
    answer = await r.json();
    answer.problems ??= [];
    answer.objects ??= [];
    say("");
  } catch (e) {
    say("The playground does not answer: " + e.message);
  }
  running = false;
  document.body.dataset.busy = String(again);
  showAnswer();
  if (again) { again = false; changed(); }
}

function showAnswer() {
  shown = Math.min(shown, Math.max(0, answer.objects.length - 1));
  $("objects-label").hidden = answer.objects.length < 2;
  $("objects").replaceChildren(...answer.objects.map((o, i) => new Option(`${o.report.verdict}: ${titleOf(o.report)}`, i, false, i === shown)));
  const verdicts = answer.objects.map((o) => o.report.verdict);
  $("tally").textContent = [...new Set(verdicts)].map((v) => `${verdicts.filter((w) => w === v).length} ${v}`).join(", ") + ":";
  showProblems();
  showObject();
}

function titleOf(r) {
  return `${r.operation} ${r.kind} ${r.namespace ? r.namespace + "/" : ""}${r.name}`;
}

function showObject() {
  const object = answer.objects[shown], verdict = $("verdict");
  document.body.dataset.answered = String(Number(document.body.dataset.answered || 0) + 1);
  if (!object) {
    verdict.className = answer.problems.length ? "bad" : "quiet";
    verdict.textContent = answer.problems.length ? "The input cannot be reviewed; see the marked lines." : "Type or choose an object.";
    for (const id of ["chain", "stage", "document", "why", "patch", "patches", "review", "responses", "answer", "before-title", "after-title"]) $(id).replaceChildren();
    $("idle-label").hidden = true;
    return;
  }
  const r = object.report, refused = r.calls.find((c) => c.message);
  verdict.className = { allowed: "good", denied: "bad", error: "bad", invalid: "bad", skipped: "warn", "not judged": "warn" }[r.verdict];
  verdict.textContent = `${r.verdict}: ${titleOf(r)}` + [refused?.message, ...(refused ? [] : [...(r.invalid || []), ...(r.unjudged || [])])].filter((t) => t).map((t) => ` — ${t}`).join("") + (r.hint ? ` — ${r.hint}` : "");
  const idle = object.stages.filter((s) => !acts(s)).length, stages = stagesOf(object);
  $("idle-label").hidden = idle === 0;
  $("idle-count").textContent = `also the ${idle === 1 ? "step that does" : idle + " steps that do"} nothing`;
  $("slider").max = stages.length - 1;
  $("chain").replaceChildren(...stages.map((s, i) => chip(s, i)));
  $("review").textContent = object.review;
  const patches = (object.responses || []).filter((a) => a.patch);
  $("patches-box").hidden = !patches.length;
  $("patches").textContent = patches.map((a) => `# ${a.path}\n${a.patch}`).join("\n");
  $("responses").textContent = (object.responses || []).map((a) => `# ${a.path}\n${a.review}`).join("\n");
  showCalls(r);
  showStage(chosen(stages));
}

// acts reports whether a stage is the beginning, the end, or a step that changes or refuses something.
function acts(s) { return !s.path || (s.patch || []).length > 0 || (s.refused || []).length > 0; }

// isPlugin reports whether a stage is a plug-in of the API server.
function isPlugin(s) { return !s.path && s.name !== "sent" && s.name !== "stored"; }

// stagesOf returns the stages to walk through.
function stagesOf(object) { return $("idle").checked ? object.stages : object.stages.filter(acts); }

// chosen returns the number of the stage to show.
function chosen(stages) {
  const i = stages.findIndex((s) => s.name + (s.path || "") === stage);
  if (i >= 0) return i;
  const refused = stages.findIndex((s) => s.outcome === "refused");
  return refused >= 0 ? refused : stages.length - 1;
}

// choose shows a stage, and remembers it.
function choose(i) {
  const s = stagesOf(answer.objects[shown])[i];
  stage = s.name + (s.path || "");
  keep();
  showStage(i);
}

function chip(s, i) {
  const b = element("button", "", s.name);
  b.type = "button";
  b.title = s.path ? `${s.path}: ${s.outcome}` : s.outcome || "";
  b.addEventListener("click", () => choose(i));
  return element("li", s.outcome || "", b);
}

// documentAt returns the object at a stage: unchanged stages do not repeat it.
function documentAt(stages, i) {
  for (let n = i; n >= 0; n--) if (stages[n].document) return stages[n].document;
  return "";
}

function showStage(i) {
  const stages = stagesOf(answer.objects[shown]), s = stages[i];
  $("slider").value = i;
  $("slider").setAttribute("aria-valuetext", s.name);
  [...$("chain").children].forEach((li, n) => n === i ? li.firstChild.setAttribute("aria-current", "step") : li.firstChild.removeAttribute("aria-current"));
  $("stage").replaceChildren(...describe(s));
  $("why-box").hidden = (s.why || []).length < 2;
  $("why").replaceChildren(...(s.why || []).map((t) => element("li", "", t)));
  $("patch-box").hidden = !(s.patch || []).length;
  $("patch").textContent = (s.patch || []).map((o) => JSON.stringify(o)).join("\n");
  const step = s.path || isPlugin(s) ? s.name : "";
  $("before-title").textContent = step ? `before ${step}` : "as sent";
  $("after-title").textContent = step ? `after ${step}` : s.name === "stored" ? "as stored" : "as sent";
  const before = documentAt(stages, step && i > 0 ? i - 1 : 0);
  showDocument(rows(before, documentAt(stages, i)), s.marks || []);
}

// showDocument shows an object before and after, with what was refused below its line.
function showDocument(all, marks) {
  let number = 0;
  $("document").replaceChildren(...all.flatMap((r) => {
    if (r.after !== undefined) number++;
    const here = r.after === undefined ? [] : marks.filter((m) => m.line === number);
    const side = (text, kind) => element("code", text === undefined ? "gap" : r.kind === "same" ? kind : `${kind} ${kind === "before" ? "removed" : "added"}`, ...(text === undefined ? [] : coloured(text)));
    return [element("div", `row ${r.kind}${here.length ? " refused" : ""}`, side(r.before, "before"), side(r.after, "after")),
      ...here.map((m) => element("p", "refusal", m.text))];
  }));
  reveal();
}

// reveal scrolls the object so that what has changed, or was refused, is in sight: all of it, if it fits.
function reveal() {
  const box = $("document"), marked = box.querySelectorAll(".changed, .refused, .refusal");
  if (!marked.length) { box.scrollTop = 0; return; }
  const top = box.getBoundingClientRect().top - box.scrollTop;
  const first = marked[0].getBoundingClientRect().top - top, last = marked[marked.length - 1].getBoundingClientRect().bottom - top;
  box.scrollTop = Math.max(0, first - Math.max(0, (box.clientHeight - (last - first)) / 2));
}
new ResizeObserver(reveal).observe($("document"));

function describe(s) {
  if (!s.path && s.name === "sent") return [element("p", "quiet", "The object as it is sent.")];
  if (isPlugin(s)) return [element("p", "quiet", `${s.name}, a plug-in of the API server, has changed the object.`)];
  if (!s.path) return [element("p", "quiet", "The object as it would be stored, beside what was sent.")];
  const mode = s.mode && s.mode !== "enforce" ? `, mode ${s.mode}` : "";
  const head = element("p", "", element("strong", "", s.name), ` of ${s.path}: ${s.outcome}${mode}`, element("span", "quiet", ` (${s.micros.toFixed(0)} µs)`));
  return [head, ...(s.why || []).slice(0, 1).map((t) => element("p", "quiet", t))];
}

function showCalls(r) {
  const parts = [];
  for (const c of r.calls) {
    const list = element("dl", "");
    const row = (name, value, className) => list.append(element("dt", "", name), element("dd", className || "", value));
    row(c.path || "usher", c.outcome);
    if (c.untouched) row("untouched", c.untouched);
    for (const w of c.warnings || []) row("warning", w, "warn");
    for (const [key, value] of Object.entries(c.audit || {})) row("audit " + key, value);
    parts.push(list);
  }
  for (const p of r.plugins || []) parts.push(element("p", p.outcome === "refused" ? "bad" : "", `${p.name}: ${p.outcome}`));
  for (const w of r.warnings || []) parts.push(element("p", "warn", w));
  for (const n of r.notCalled || []) parts.push(element("p", "quiet", `${n.path} is not called: ${n.why}`));
  $("answer").replaceChildren(...parts);
}

// --- what a user does ---

$("text").addEventListener("input", () => {
  if (lesson) { lesson.files[tab] = $("text").value; useFiles(); } else { input[tab] = $("text").value; $("example").value = ""; }
  showProblems();
  changed();
});
$("lesson").addEventListener("change", () => { first(); if ($("lesson").value) openLesson($("lesson").value); else load(start.input); });
$("record").addEventListener("change", async () => {
  const n = $("record").value;
  if (n === "") return;
  first();
  load(await (await fetch("records/" + n)).json());
  $("example").value = "";
  $("record").value = n;
  keep();
});
$("check").addEventListener("click", async () => {
  const r = await fetch(`lessons/${lesson.name}/check`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(lesson.files) });
  const v = r.ok ? await r.json() : { missing: await r.text() }, next = start.lessons.find((l) => l.number === lesson.number + 1);
  $("lesson-said").className = v.missing ? "bad" : "good";
  $("lesson-said").textContent = v.missing ? `Not yet: ${v.missing}\n${v.saw || ""}` : "Done." + (next ? ` The next lesson is ${next.number}, ${next.title}.` : " That was the last lesson.");
});
$("hint").addEventListener("click", () => {
  const n = lesson.shownHints = Math.min(lesson.shownHints + 1, lesson.hints.length);
  $("lesson-said").className = "quiet";
  $("lesson-said").textContent = `Hint ${n} of ${lesson.hints.length}: ${lesson.hints[n - 1]}`;
});
$("reset").addEventListener("click", () => openLesson(lesson.name));
$("text").addEventListener("scroll", () => { $("numbers").scrollTop = $("text").scrollTop; });
for (const f of fields) $(f).addEventListener("input", () => { input[f] = $(f).value; tellRequest(); changed(); });
$("dryRun").addEventListener("change", () => { input.dryRun = $("dryRun").checked; changed(); });
$("slider").addEventListener("input", () => { if (answer.objects[shown]) choose(Number($("slider").value)); });
$("idle").addEventListener("change", showObject);
document.addEventListener("keydown", (e) => { // the arrow keys step also where no control needs them
  const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key], object = answer.objects[shown];
  if (!by || !object || e.altKey || e.ctrlKey || e.metaKey || e.target.closest("input, select, textarea, [role=tab]")) return;
  const to = Number($("slider").value) + by;
  if (to >= 0 && to < stagesOf(object).length) choose(to);
});
$("restart").addEventListener("click", () => {
  first();
  $("example").value = "";
  history.replaceState(null, "", location.pathname);
  load(start.input);
});
$("objects").addEventListener("change", () => { shown = Number($("objects").value); stage = null; showProblems(); showObject(); });
$("example").addEventListener("change", async () => {
  const name = $("example").value;
  if (!name) return;
  first();
  base = name;
  load(await exampleOf(name));
  keep();
  $("about").textContent = examples.find((e) => e.name === name).shows;
});
$("tabs").addEventListener("click", (e) => { const t = e.target.closest("[role=tab]"); if (t) openTab(t.dataset.tab); });
$("tabs").addEventListener("keydown", (e) => {
  const all = [...document.querySelectorAll("[role=tab]")], at = all.findIndex((t) => t.dataset.tab === tab);
  const to = { ArrowRight: (at + 1) % all.length, ArrowLeft: (at + all.length - 1) % all.length, Home: 0, End: all.length - 1 }[e.key];
  if (to === undefined) return;
  e.preventDefault();
  openTab(all[to].dataset.tab);
  all[to].focus();
});
$("share").addEventListener("click", async () => {
  const url = new URL(location.href);
  url.hash = await pack(given(), base || examples[0]?.name || "", exampleOf);
  history.replaceState(null, "", url);
  keep();
  copy(url.href, "The address of this page has it all, and is copied. It is not sent anywhere.");
});
for (const b of document.querySelectorAll("[data-copy]")) b.addEventListener("click", () => {
  const report = answer.objects[shown]?.report;
  if (!report) { say("There is nothing to copy: no object could be reviewed."); return; }
  if (b.dataset.copy === "case" && ["invalid", "not judged"].includes(report.verdict)) { say(`The object is ${report.verdict}: a case of usherctl test cannot expect that.`); return; }
  const path = report.calls[0]?.path || "/mutate-pods", sent = given();
  const text = { curl: () => asCurl(sent, path), review: () => asReview(sent), case: () => asCase(sent, report) }[b.dataset.copy]();
  copy(text, "Copied: paste it into a shell.");
});

async function copy(text, done) {
  document.body.dataset.copied = text;
  try { await navigator.clipboard.writeText(text); say(done); } catch { say("The browser does not allow to copy; here it is:\n" + text); }
}

// --- the start ---

const start = await (await fetch("start")).json();
$("version").textContent = "usher " + start.version + ".";
examples = start.examples || [];
let group;
for (const e of examples) {
  const [route, name] = e.name.split("/");
  if (group?.label !== route) { group = document.createElement("optgroup"); group.label = route; $("example").append(group); }
  group.append(new Option(name, e.name));
}
for (const l of start.lessons || []) $("lesson").append(new Option(`${l.number}. ${l.title}`, l.name));
for (const suite of start.facts.suites) $("path").append(new Option(`those of the ${suite} suite that an API server calls`, suite));
(start.records || []).forEach((r, n) => $("record").append(new Option(r.title, n)));
$("record-label").hidden = !(start.records || []).length;
if (start.problem) say("The recording: " + start.problem);
for (const path of start.facts.paths) $("path").append(new Option(path, path));
async function fromAddress() {
  const shared = await unpack(location.hash.slice(1), exampleOf);
  load(shared || start.input);
}

// exampleOf returns the input of an example; an empty one if there is none of the name.
async function exampleOf(name) {
  const r = name && await fetch("examples/" + name);
  return { ...empty(), ...(r?.ok ? await r.json() : {}) };
}
addEventListener("hashchange", () => { first(); fromAddress(); });

// keep keeps what was typed and chosen in this tab of the browser, for a reload.
function keep() {
  if (!started) return;
  const files = lesson?.files;
  const state = { start: start.input, hash: location.hash, input: given(), lesson: lesson?.name, files, tab, shown, stage, example: $("example").value, record: $("record").value };
  try { sessionStorage.setItem("state", JSON.stringify(state)); } catch { sessionStorage.removeItem("state"); } // too large
}

// kept returns what was kept of this page, or null: the address or the start of another page is worth more.
function kept() {
  try {
    const state = JSON.parse(sessionStorage.getItem("state"));
    return state && state.hash === location.hash && JSON.stringify(state.start) === JSON.stringify(start.input) ? state : null;
  } catch { return null; }
}

async function reopen() {
  const state = kept();
  if (!state) return fromAddress();
  if (state.lesson) await openLesson(state.lesson, state.files);
  else load(state.input);
  for (const id of ["example", "record"]) $(id).value = state[id];
  if (document.getElementById("tab-" + state.tab)) openTab(state.tab);
  shown = state.shown;
  stage = state.stage;
}
await reopen();
started = true;
keep();
document.body.dataset.ready = "true";
