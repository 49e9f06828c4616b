// The input in the fragment of the address, which a browser never sends to a server: what differs from an example.

const whole = "1.", version = "2.";

// pack returns an input as the text of a fragment. exampleOf returns the input of an example.
export async function pack(input, example, exampleOf) {
  const base = await exampleOf(example);
  const differs = Object.fromEntries(Object.entries(input).filter(([key, value]) => value !== base[key]));
  const bytes = new TextEncoder().encode(JSON.stringify({ example, differs }));
  const packed = await through(bytes, new CompressionStream("deflate-raw"));
  let text = "";
  for (const byte of packed) text += String.fromCharCode(byte);
  return version + btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// unpack returns the input of a fragment, or null if it holds none.
export async function unpack(fragment, exampleOf) {
  const is = [whole, version].find((v) => fragment.startsWith(v));
  if (!is) return null;
  try {
    const text = atob(fragment.slice(is.length).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = await through(Uint8Array.from(text, (c) => c.charCodeAt(0)), new DecompressionStream("deflate-raw"));
    const input = JSON.parse(new TextDecoder().decode(bytes));
    return is === whole ? input : { ...await exampleOf(input.example), ...input.differs };
  } catch {
    return null;
  }
}

async function through(bytes, transform) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(transform)).arrayBuffer());
}
