// The difference of two texts, line by line and side by side.

// rows returns the lines of two texts in pairs, each as {before, after, kind}: same or changed. The line of one side may
// be missing.
export function rows(before, after) {
  const out = [];
  let removed = [], added = [];
  const flush = () => {
    for (let i = 0; i < Math.max(removed.length, added.length); i++) out.push({ before: removed[i], after: added[i], kind: "changed" });
    removed = []; added = [];
  };
  for (const { text, kind } of lines(before, after))
    if (kind === "removed") removed.push(text);
    else if (kind === "added") added.push(text);
    else { flush(); out.push({ before: text, after: text, kind }); }
  flush();
  return out;
}

// lines returns the lines of `after` with those of `before` that are gone, each as {text, kind}: same, added or removed.
function lines(before, after) {
  const a = split(before), b = split(after);
  let head = 0, tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const same = (text) => ({ text, kind: "same" });
  return [
    ...b.slice(0, head).map(same),
    ...middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...b.slice(b.length - tail).map(same),
  ];
}

function split(text) {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

const tooMany = 4e6; // cells of the table; beyond that all lines count as replaced

// middle finds a longest common subsequence by the usual table.
function middle(a, b) {
  const removed = (text) => ({ text, kind: "removed" }), added = (text) => ({ text, kind: "added" });
  if (a.length * b.length > tooMany) return [...a.map(removed), ...b.map(added)];
  const width = b.length + 1, longest = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      longest[i * width + j] = a[i] === b[j] ? longest[(i + 1) * width + j + 1] + 1
        : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
  const out = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { out.push({ text: b[j], kind: "same" }); i++; j++; }
    else if (i < a.length && (j === b.length || longest[(i + 1) * width + j] >= longest[i * width + j + 1])) out.push(removed(a[i++]));
    else out.push(added(b[j++]));
  }
  return out;
}
