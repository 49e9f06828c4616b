// The whole input in the fragment of the address: a browser never sends it to a server.

const version = "1.";

// pack returns an input as the text of a fragment.
export async function pack(input) {
  const bytes = new TextEncoder().encode(JSON.stringify(input));
  const packed = await through(bytes, new CompressionStream("deflate-raw"));
  let text = "";
  for (const byte of packed) text += String.fromCharCode(byte);
  return version + btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// unpack returns the input of a fragment, or null if it holds none.
export async function unpack(fragment) {
  if (!fragment.startsWith(version)) return null;
  try {
    const text = atob(fragment.slice(version.length).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = await through(Uint8Array.from(text, (c) => c.charCodeAt(0)), new DecompressionStream("deflate-raw"));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return null;
  }
}

async function through(bytes, transform) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(transform)).arrayBuffer());
}
