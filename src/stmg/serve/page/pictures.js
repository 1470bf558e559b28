// Pictures of all tiles over one connection: a browser opens only six to a server, and there may be more tiles.

const encoder = new TextEncoder();
const BLANK_LINE = encoder.encode("\r\n\r\n");

export class PictureFeed {
  // take(stream, view, bitmap) draws a picture.
  constructor(take) {
    this.take = take;
    this.wanted = "";
    this.decoding = new Map(); // by stream: the newest picture that waits to be decoded, or null while one is decoded
    document.addEventListener("visibilitychange", () => this.restart());
  }

  // Show these, each "STREAM:VIEW".
  show(list) {
    const wanted = list.map((item) => `show=${encodeURIComponent(item)}`).join("&");
    if (wanted !== this.wanted) {
      this.wanted = wanted;
      this.restart();
    }
  }

  restart() {
    this.stop?.abort();
    clearTimeout(this.timer);
    if (this.wanted && document.visibilityState === "visible") {
      this.stop = new AbortController();
      this.read(this.stop.signal);
    }
  }

  async read(signal) {
    try {
      const response = await fetch(`/api/pictures?${this.wanted}`, { signal });
      if (response.ok) {
        await this.readParts(response.body.getReader());
      }
    } catch {
      // Aborted, or the connection broke off.
    }
    if (!signal.aborted) {
      this.timer = setTimeout(() => this.restart(), 1000);
    }
  }

  async readParts(reader) {
    let rest = new Uint8Array(0);
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      rest = join(rest, value);
      for (let part = split(rest); part; part = split(rest)) {
        rest = rest.slice(part.end);
        this.queue(part);
      }
    }
  }

  // A picture that comes while the one before is decoded waits; one more takes its place.
  queue(part) {
    const busy = this.decoding.has(part.stream);
    this.decoding.set(part.stream, busy ? part : null);
    if (!busy) {
      this.decode(part);
    }
  }

  async decode(part) {
    try {
      const bitmap = await createImageBitmap(new Blob([part.body], { type: "image/jpeg" }));
      this.take(part.stream, part.view, bitmap);
      bitmap.close();
    } catch {
      // A picture that cannot be decoded is not shown.
    }
    const next = this.decoding.get(part.stream);
    this.decoding.delete(part.stream);
    if (next) {
      this.queue(next);
    }
  }
}

function join(first, second) {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}

// The first part in the bytes, if it is there as a whole.
function split(bytes) {
  const start = find(bytes, BLANK_LINE);
  if (start < 0) {
    return null;
  }
  const head = new TextDecoder().decode(bytes.subarray(0, start));
  const field = (name) => new RegExp(`^${name}: (.*)$`, "im").exec(head)?.[1].trim();
  const begin = start + BLANK_LINE.length;
  const end = begin + Number(field("content-length"));
  if (bytes.length < end + 2) {
    return null;
  }
  return { stream: field("x-stream"), view: field("x-view"), body: bytes.slice(begin, end), end: end + 2 };
}

function find(bytes, pattern) {
  for (let at = 0; at + pattern.length <= bytes.length; at += 1) {
    if (pattern.every((value, offset) => bytes[at + offset] === value)) {
      return at;
    }
  }
  return -1;
}
