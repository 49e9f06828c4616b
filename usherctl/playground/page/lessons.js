// The lessons of `usherctl learn` in the page: their text, and which of their files are the object, the policy and the cluster.

// inputOf returns what is reviewed while a lesson is done: its files, by what they are for.
export function inputOf(files) {
  const names = Object.keys(files).sort(), isObject = (n) => /^[^/]+\.(ya?ml|json)$/.test(n) && !["policy.yaml", "old.yaml"].includes(n) && /kind/.test(files[n]);
  const object = names.find((n) => ["pod.yaml", "deployment.yaml", "review.json"].includes(n)) || names.find(isObject) || "";
  const parts = names.filter((n) => n.startsWith("cluster/") && files[n].trim());
  return {
    object: files[object] || "", old: files["old.yaml"] || "", policy: files["policy.yaml"] || "",
    cluster: parts.map((n) => `--- # ${n}\n${files[n].replace(/^---\n/, "").replace(/\n?$/, "\n")}`).join(""),
    operation: files["old.yaml"] ? "UPDATE" : "CREATE", names: { object, parts },
  };
}

// placeOf returns the file and the line of a problem in an input that inputOf has made.
export function placeOf(problem, files, names) {
  if (problem.tab === "object" || problem.tab === "gates") return { tab: names.object, line: problem.line };
  if (problem.tab !== "cluster") return { tab: problem.tab + ".yaml", line: problem.line };
  let line = problem.line;
  for (const name of names.parts) {
    const length = files[name].replace(/^---\n/, "").replace(/\n?$/, "\n").split("\n").length; // with the line that names the file
    if (line <= length) return { tab: name, line: Math.max(1, line - 1 + (files[name].startsWith("---\n") ? 1 : 0)) };
    line -= length;
  }
  return { tab: names.parts.at(-1) || names.object, line: 0 };
}

// render returns the elements of a text in the part of Markdown that lessons use.
export function render(title, text) {
  const out = [make("h3", title)], blocks = text.replace(/\n+$/, "").split(/\n{2,}/);
  for (const block of blocks) {
    const lines = block.split("\n"), last = out.at(-1);
    if (lines.every((l) => /^( {4}|\t|$)/.test(l))) {
      const code = lines.map((l) => l.replace(/^( {4}|\t)/, "")).join("\n");
      if (last.tagName === "PRE") last.append("\n\n" + code);
      else out.push(make("pre", code));
    } else if (lines[0].startsWith("#")) {
      out.push(make("h4", lines[0].replace(/^#+ */, "")));
      if (lines.length > 1) out.push(paragraph("p", lines.slice(1).join(" ")));
    } else if (/^([-*]|\d+\.) /.test(lines[0])) out.push(list(lines));
    else out.push(paragraph("p", lines.join(" ")));
  }
  for (const pre of out) if (pre.tagName === "PRE") pre.tabIndex = 0;
  return out;
}

function make(name, text) {
  const e = document.createElement(name);
  e.textContent = text;
  return e;
}

function list(lines) {
  const items = [];
  for (const line of lines)
    if (/^([-*]|\d+\.) /.test(line)) items.push(line.replace(/^([-*]|\d+\.) +/, ""));
    else items.push(items.pop() + " " + line.trim());
  const e = document.createElement(/^\d/.test(lines[0]) ? "ol" : "ul");
  e.append(...items.map((text) => paragraph("li", text)));
  return e;
}

// paragraph makes an element with code, bold text and links to elsewhere as text.
function paragraph(name, text) {
  const e = document.createElement(name);
  for (const part of text.split(/(`[^`]+`|\*\*[^*]+\*\*)/)) {
    if (part.startsWith("`")) e.append(make("code", part.slice(1, -1)));
    else if (part.startsWith("**")) e.append(make("strong", part.slice(2, -2)));
    else if (part) e.append(part);
  }
  return e;
}
