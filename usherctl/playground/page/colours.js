// The colours of a line of YAML.

const line = /^(\s*(?:- +)*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'#{[][^:#]*?(?:[^\s:#]:(?=\S)[^:#]*?)*)(:)(\s.*)?$/;

// coloured returns a line as text and elements, with classes for its key and its value.
export function coloured(text) {
  const parts = text.length < 400 && line.exec(text);
  if (!parts) return /^\s*#/.test(text) ? [span("comment", text)] : [text];
  const value = parts[4] || "", bare = value.trim();
  const kind = /^(true|false|null|-?\d[\d.]*)$/.test(bare) ? "literal" : "string";
  return [parts[1], span("key", parts[2] + parts[3]), bare ? span(kind, value) : value];
}

function span(name, text) {
  const e = document.createElement("span");
  e.className = name;
  e.textContent = text;
  return e;
}
