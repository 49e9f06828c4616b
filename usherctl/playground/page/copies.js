// The same input for a shell: files, and the commands that use them.

// asReview returns the lines that review the input with `usherctl review`.
export function asReview(input) {
  return [...files(input), `usherctl review --explain ${flags(input)}object.yaml`].join("\n") + "\n";
}

// asCurl returns the lines that post the input to a server that `make run` has started.
export function asCurl(input, path) {
  return [...files(input), `usherctl review -o review --no-templates ${flags(input, true)}object.yaml |`,
    `  curl -sS --cacert .state/ca.crt -H 'Content-Type: application/json' --data-binary @- https://127.0.0.1:9443${path} |`,
    "  usher show"].join("\n") + "\n";
}

// asCase returns the lines that make a case for `usherctl test` of the input and of what became of it. JSON is YAML, so the
// values need no quoting of their own.
export function asCase(input, report) {
  const request = {};
  if (input.operation !== "CREATE") request.operation = input.operation;
  if (input.user) request.user = input.user;
  if (input.groups) request.groups = input.groups.split(/[, ]+/).filter((g) => g);
  for (const key of ["namespace", "subresource"]) if (input[key]) request[key] = input[key];
  if (input.dryRun) request.dryRun = true;
  const isReview = /"?kind"?:\s*"?AdmissionReview\b/.test(input.object), steps = {}, gates = {};
  for (const call of report.calls) for (const s of call.steps || [])
    if (s.mode === "off") steps[s.name] ??= "off";
    else if ((s.refused || []).length) steps[s.name] = "refused";
    else if ((s.patch || []).length) steps[s.name] = "changed";
  for (const pair of input.gates.split(",").filter((g) => g.includes("="))) gates[pair.split("=")[0].trim()] = pair.split("=")[1].trim() === "true";
  const expect = { verdict: report.verdict, steps }, last = report.calls.at(-1);
  if (report.verdict === "denied") expect.message = last.message.replace(/ \(refusal [0-9a-f]{8}\)$/, "");
  const lines = [`name: ${JSON.stringify(`${report.operation} ${report.kind} ${report.name}`)}`, `${isReview ? "review" : "manifest"}: object.yaml`];
  if (input.operation === "UPDATE" && input.old.trim()) lines.push("old: old.yaml");
  if (Object.keys(request).length) lines.push(`request: ${JSON.stringify(request)}`);
  if (input.policy.trim()) lines.push("config: policy.yaml");
  if (input.cluster.trim()) lines.push("cluster: cluster");
  if (Object.keys(gates).length) lines.push(`gates: ${JSON.stringify(gates)}`);
  if (input.path.startsWith("/")) lines.push(`path: ${input.path}`);
  else if (input.path) lines.push(`suites: [${input.path}]`);
  lines.push("expect:", ...Object.entries(expect).map(([key, value]) => `  ${key}: ${JSON.stringify(value)}`));
  return [...files(input), "cat > case.yaml <<'END OF case.yaml'", ...lines, "END OF case.yaml", "usherctl test ."].join("\n") + "\n";
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
  if (!onlyRequest) flag(input.path.startsWith("/") ? "path" : "suite", input.path);
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
