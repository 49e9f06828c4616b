// The same input for a shell: files, and the commands that use them.

// asReview returns the lines that review the input with `usher review`.
export function asReview(input) {
  return [...files(input), `usher review --explain ${flags(input)}object.yaml`].join("\n") + "\n";
}

// asCurl returns the lines that post the input to a server that `make run` has started.
export function asCurl(input, path) {
  return [...files(input), `usher review -o review --no-templates ${flags(input, true)}object.yaml |`,
    `  curl -sS --cacert .state/ca.crt -H 'Content-Type: application/json' --data-binary @- https://127.0.0.1:9443${path} |`,
    "  usher show"].join("\n") + "\n";
}

function files(input) {
  const out = [];
  const file = (name, text) => { if (text.trim()) out.push(`cat > ${name} <<'END OF ${name}'`, text.replace(/\n$/, ""), `END OF ${name}`); };
  file("object.yaml", input.object);
  if (input.operation === "UPDATE") file("old.yaml", input.old);
  file("policy.yaml", input.policy);
  if (input.cluster.trim()) out.push("mkdir -p cluster");
  file("cluster/cluster.yaml", input.cluster);
  return out;
}

function flags(input, onlyRequest) {
  const list = [];
  const flag = (name, value, unless = "") => { if (value && value !== unless) list.push(`--${name}=${quoted(value)}`); };
  flag("operation", input.operation, "CREATE");
  if (input.operation === "UPDATE" && input.old.trim()) list.push("--old=old.yaml");
  flag("subresource", input.subresource);
  flag("as", input.user);
  flag("as-group", input.groups.replaceAll(" ", ""));
  flag("namespace", input.namespace);
  if (input.dryRun) list.push("--dry-run");
  if (!onlyRequest && input.policy.trim()) list.push("--config=policy.yaml");
  if (!onlyRequest && input.cluster.trim()) list.push("--cluster-dir=cluster");
  if (!onlyRequest) flag("feature-gates", input.gates.trim());
  return list.map((f) => f + " ").join("");
}

// quoted returns a word for a POSIX shell.
function quoted(word) {
  return /^[\w.,:/@=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
