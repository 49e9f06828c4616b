// The page: what is typed is sent to the server of this page, and its answer is shown stage by stage.
import { lines } from "./diff.js";
import { inputOf, placeOf, render } from "./lessons.js";
import { pack, unpack } from "./share.js";
import { asCase, asCurl, asReview } from "./copies.js";

const $ = (id) => document.getElementById(id);
const parts = {
  object: "A manifest, several, or an AdmissionReview, as YAML or JSON. Of a Deployment, the pod that its controller would create is reviewed.",
  old: "The object as it is stored, for an UPDATE. Empty: the same object.",
  policy: "The policy file of usher. Empty: the default policy.",
  cluster: "Manifests that stand for the cluster: namespaces, nodes, profiles, quotas.",
};
const fields = ["path", "operation", "namespace", "subresource", "user", "groups", "gates"];
const titles = { object: "Object", old: "Stored object", policy: "Policy", cluster: "Cluster" };
let lesson = null; // that is open: name, title, text, hints, files, shown hints
let input = empty(), tab = "object", answer = { problems: [], objects: [] }, shown = 0, stage = 0, examples = [];

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

function say(text) { $("said").textContent = text; }

// --- the input ---

function load(next) {
  lesson = null;
  $("lesson").value = $("record").value = "";
  for (const id of ["lesson-box", "lesson-bar"]) $(id).hidden = true;
  $("input-title").textContent = "What a user sends";
  input = { ...empty(), ...Object.fromEntries(Object.entries(next).filter(([, value]) => value !== "")) };
  for (const f of fields) $(f).value = input[f];
  $("dryRun").checked = input.dryRun;
  makeTabs(Object.keys(titles));
  openTab("object");
  changed();
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
async function openLesson(name) {
  const l = await (await fetch("lessons/" + name)).json();
  load({});
  $("example").value = "";
  lesson = { ...l, files: { ...l.files }, shownHints: 0 };
  $("lesson").value = name;
  for (const id of ["lesson-box", "lesson-bar"]) $(id).hidden = false;
  $("input-title").textContent = `Lesson ${l.number}`;
  $("lesson-box").replaceChildren(...render(l.title, l.text));
  $("lesson-box").scrollTop = 0;
  $("lesson-said").textContent = l.needs ? "This lesson needs a cluster: do it in a terminal, with usher learn." : "";
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
  const here = problemsOf(tab), marked = new Set(here.map((p) => p.line));
  const count = $("text").value.split("\n").length;
  $("numbers").replaceChildren(...Array.from({ length: count }, (_, i) => element("span", marked.has(i + 1) ? "marked" : "", String(i + 1))));
  $("numbers").scrollTop = $("text").scrollTop;
  $("text").setAttribute("aria-invalid", here.length > 0);
  $("problems").replaceChildren(...here.map((p) => {
    const b = element("button", "", (p.line > 0 ? `line ${p.line}: ` : "") + p.text);
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
  text.scrollTop = Math.max(0, before.length - 5) * parseFloat(getComputedStyle(text).lineHeight);
}

// --- the answer ---

let running = false, again = false;

// changed sends the input. While an answer is awaited, only the last change is kept.
async function changed() {
  if (running) { again = true; return; }
  running = true;
  document.body.dataset.busy = "true";
  try {
    const { names, ...sent } = input;
    const r = await fetch("run", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(sent) });
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
  $("objects").replaceChildren(...answer.objects.map((o, i) => new Option(titleOf(o.report), i, false, i === shown)));
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
    for (const id of ["chain", "stage", "document", "patch", "answer"]) $(id).replaceChildren();
    return;
  }
  const r = object.report, refused = r.calls.find((c) => c.message);
  verdict.className = { allowed: "good", denied: "bad", error: "bad", skipped: "warn" }[r.verdict];
  verdict.textContent = `${r.verdict}: ${titleOf(r)}` + (refused ? ` — ${refused.message}` : "") + (r.hint ? ` — ${r.hint}` : "");
  $("slider").max = object.stages.length - 1;
  $("chain").replaceChildren(...object.stages.map((s, i) => chip(s, i)));
  showStage(Math.min(stage, object.stages.length - 1));
  showCalls(r);
}

function chip(s, i) {
  const b = element("button", "", s.name);
  b.type = "button";
  b.title = s.path ? `${s.path}: ${s.outcome}` : s.outcome || "";
  b.addEventListener("click", () => showStage(i));
  return element("li", s.outcome || "", b);
}

// documentAt returns the object at a stage: unchanged stages do not repeat it.
function documentAt(stages, i) {
  for (let n = i; n >= 0; n--) if (stages[n].document) return stages[n].document;
  return "";
}

function showStage(i) {
  const stages = answer.objects[shown]?.stages;
  if (!stages) return;
  stage = i;
  const s = stages[i];
  $("slider").value = i;
  $("slider").setAttribute("aria-valuetext", s.name);
  [...$("chain").children].forEach((li, n) => n === i ? li.firstChild.setAttribute("aria-current", "step") : li.firstChild.removeAttribute("aria-current"));
  $("stage").replaceChildren(...describe(s));
  const before = i === 0 ? documentAt(stages, 0) : documentAt(stages, s.name === "stored" ? 0 : i - 1);
  $("document").replaceChildren(...lines(before, documentAt(stages, i)).map((l) => element("span", l.kind === "same" ? "" : l.kind,
    { same: "  ", added: "+ ", removed: "- " }[l.kind] + l.text)));
  $("document").querySelector(".added, .removed")?.scrollIntoView({ block: "nearest" });
  $("patch-box").hidden = !(s.patch || []).length;
  $("patch").textContent = (s.patch || []).map((o) => JSON.stringify(o)).join("\n");
}

function describe(s) {
  if (s.name === "user") return [element("p", "quiet", "The object as the user sends it.")];
  if (s.name === "stored") return [element("p", "quiet", "The object as it would be stored; the difference is to what the user sent.")];
  const mode = s.mode && s.mode !== "enforce" ? `, mode ${s.mode}` : "";
  const head = element("p", "", element("strong", "", s.name), ` of ${s.path}: ${s.outcome}${mode}`, element("span", "quiet", ` (${s.micros.toFixed(0)} µs)`));
  return [head, ...(s.refused || []).map((t) => element("p", "bad", t)), ...(s.why || []).map((t) => element("p", "quiet", t))];
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
  for (const n of r.notCalled || []) parts.push(element("p", "quiet", `${n.path} is not called: ${n.why}`));
  $("answer").replaceChildren(...parts);
}

// --- what a user does ---

$("text").addEventListener("input", () => {
  if (lesson) { lesson.files[tab] = $("text").value; useFiles(); } else { input[tab] = $("text").value; $("example").value = ""; }
  showProblems();
  changed();
});
$("lesson").addEventListener("change", () => { shown = stage = 0; if ($("lesson").value) openLesson($("lesson").value); else load(start.input); });
$("record").addEventListener("change", async () => {
  const n = $("record").value;
  if (n === "") return;
  shown = stage = 0;
  load(await (await fetch("records/" + n)).json());
  $("example").value = "";
  $("record").value = n;
});
$("check").addEventListener("click", async () => {
  const r = await fetch(`lessons/${lesson.name}/check`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(lesson.files) });
  const v = r.ok ? await r.json() : { missing: await r.text() }, next = start.lessons.find((l) => l.number === lesson.number + 1);
  $("lesson-said").className = v.missing ? "bad" : "good";
  $("lesson-said").textContent = v.missing ? "Not yet: " + v.missing : "Done." + (next ? ` The next lesson is ${next.number}, ${next.title}.` : " That was the last lesson.");
});
$("hint").addEventListener("click", () => {
  const n = lesson.shownHints = Math.min(lesson.shownHints + 1, lesson.hints.length);
  $("lesson-said").className = "quiet";
  $("lesson-said").textContent = `Hint ${n} of ${lesson.hints.length}: ${lesson.hints[n - 1]}`;
});
$("reset").addEventListener("click", () => openLesson(lesson.name));
$("text").addEventListener("scroll", () => { $("numbers").scrollTop = $("text").scrollTop; });
for (const f of fields) $(f).addEventListener("input", () => { input[f] = $(f).value; changed(); });
$("dryRun").addEventListener("change", () => { input.dryRun = $("dryRun").checked; changed(); });
$("slider").addEventListener("input", () => showStage(Number($("slider").value)));
$("objects").addEventListener("change", () => { shown = Number($("objects").value); stage = 0; showProblems(); showObject(); });
$("example").addEventListener("change", async () => {
  const name = $("example").value;
  if (!name) return;
  shown = stage = 0;
  load(await (await fetch("examples/" + name)).json());
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
  const { names, ...sent } = input;
  url.hash = await pack(sent);
  history.replaceState(null, "", url);
  copy(url.href, "The address of this page has it all, and is copied. It is not sent anywhere.");
});
for (const b of document.querySelectorAll("[data-copy]")) b.addEventListener("click", () => {
  const report = answer.objects[shown]?.report;
  if (!report) { say("There is nothing to copy: no object could be reviewed."); return; }
  const path = report.calls[0]?.path || "/mutate-pods";
  const text = { curl: () => asCurl(input, path), review: () => asReview(input), case: () => asCase(input, report) }[b.dataset.copy]();
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
  const shared = await unpack(location.hash.slice(1));
  load(shared || start.input);
}
addEventListener("hashchange", fromAddress);
await fromAddress();
document.body.dataset.ready = "true";
