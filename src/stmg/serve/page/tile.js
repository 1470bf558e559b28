// A tile: one stream with its picture, timeline, figures and controls.

import { call, option, problem } from "/page/api.js";
import { Timeline } from "/page/timeline.js";

const VIEWS = { overlay: "Overlay", raw: "Raw", labels: "Labels", mask: "Change", compare: "Beside network" };
const template = document.getElementById("tile");

export class Tile {
  // changed() is called when another view is chosen or the tile is gone; announce(text) speaks.
  constructor(name, options, { changed, announce }) {
    this.name = name;
    this.view = "overlay";
    this.changed = changed;
    this.announce = announce;
    this.element = template.content.cloneNode(true).querySelector(".tile");
    this.element.dataset.stream = name;
    const id = `stream-${name}`;
    this.find("h2").textContent = name;
    this.find("h2").id = id;
    this.element.setAttribute("aria-labelledby", id);
    this.timeline = new Timeline(this.find(".timeline canvas"));
    this.canvas = this.find(".picture");
    this.makeViews();
    this.makeControls(options);
  }

  find(selector) {
    return this.element.querySelector(selector);
  }

  makeViews() {
    for (const [view, text] of Object.entries(VIEWS)) {
      const label = document.createElement("label");
      const input = document.createElement("input");
      Object.assign(input, { type: "radio", name: `view-${this.name}`, value: view, checked: view === this.view });
      const span = document.createElement("span");
      span.textContent = text;
      label.append(input, span);
      this.find(".views").append(label);
      input.addEventListener("change", () => {
        this.view = view;
        this.changed();
      });
    }
  }

  makeControls(options) {
    this.settings = new Map();
    for (const { name, help, values } of options.controls) {
      const element = document.createElement(values ? "select" : "input");
      element.className = name.replaceAll("_", "-");
      element.title = help;
      const known = new Map();
      const offer = (value) => {
        if (values && !known.has(key(value))) {
          known.set(key(value), value);
          element.append(option(key(value), show(value)));
        }
      };
      (values ?? []).forEach(offer);
      element.addEventListener("change", () => this.change({ [name]: values ? known.get(element.value) : element.value }));
      const label = document.createElement("label");
      const title = name.replaceAll("_", " ");
      label.append(`${title[0].toUpperCase()}${title.slice(1)} `, element);
      this.find(".snapshot").before(label);
      this.settings.set(name, { element, offer });
    }
    this.find(".opacity").addEventListener("input", () => {
      clearTimeout(this.opacityTimer);
      this.opacityTimer = setTimeout(() => this.change({ opacity: Number(this.find(".opacity").value) }), 60);
    });
    this.find(".pause").addEventListener("click", () => this.change({ paused: !this.info.controls.paused }));
    this.find(".snapshot").addEventListener("click", () => this.snapshot());
    this.find(".remove").addEventListener("click", () => this.act(() => call("DELETE", this.path())));
  }

  path(rest = "") {
    return `/api/streams/${encodeURIComponent(this.name)}${rest}`;
  }

  async act(work) {
    try {
      problem(this.find(":scope > .problem"), "");
      await work();
    } catch (error) {
      problem(this.find(":scope > .problem"), error.message);
    }
  }

  change(changes) {
    this.busy = (this.busy ?? 0) + 1; // what the server says of controls waits until it has heard of this
    return this.act(async () => {
      try {
        this.info.controls = await call("PATCH", this.path(), changes);
      } finally {
        this.busy -= 1;
        this.showControls();
      }
    });
  }

  snapshot() {
    return this.act(async () => {
      const taken = await call("POST", this.path("/snapshots"));
      for (const href of [taken.picture, taken.labels]) {
        const link = document.createElement("a");
        link.href = href;
        link.download = "";
        document.body.append(link);
        link.click();
        link.remove();
      }
      this.announce(`Snapshot of ${this.name}, frame ${taken.index}`);
    });
  }

  draw(view, bitmap) {
    if (view !== this.view) {
      return;
    }
    if (this.canvas.width !== bitmap.width || this.canvas.height !== bitmap.height) {
      Object.assign(this.canvas, { width: bitmap.width, height: bitmap.height });
    }
    this.canvas.getContext("2d").drawImage(bitmap, 0, 0);
  }

  update(info, history, now) {
    const before = this.info?.status.state;
    const controls = this.busy ? this.info.controls : info.controls;
    this.info = { ...info, controls };
    this.timeline.add(info.points, history);
    this.timeline.draw();
    if (!this.busy) {
      this.showControls();
    }
    this.showStatus(now);
    this.showFigures();
    this.showAreas();
    if (before && before !== info.status.state) {
      this.announce(`${this.name} is ${info.status.state}${info.status.reason ? `: ${info.status.reason}` : ""}`);
    }
  }

  showStatus(now) {
    const { status, controls, model, source, recording } = this.info;
    const state = status.state === "live" && controls.paused ? "paused" : status.state;
    const badge = this.find(".badge");
    badge.textContent = state;
    badge.className = `badge ${state}`;
    this.find(".model").textContent = [model, source, recording].filter(Boolean).join(" · ");
    this.canvas.setAttribute("aria-label", `${this.name}, ${VIEWS[this.view]}, ${state}`);
    const down = this.find(".down");
    down.hidden = status.state === "live";
    down.querySelector("strong").textContent = { offline: "Offline", ended: "Ended", starting: "Starting" }[status.state] ?? "";
    down.querySelector(".why").textContent = status.reason ?? "";
    const since = `since ${new Date(status.since * 1000).toLocaleTimeString()}`;
    const next = status.next_try === null ? "" : `, tries again in ${Math.max(0, Math.ceil(status.next_try - now))} s`;
    down.querySelector(".when").textContent = since + next;
  }

  showControls() {
    const { paused, opacity } = this.info.controls;
    const pause = this.find(".pause");
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Paused" : "Pause";
    const set = (element, value) => {
      if (document.activeElement !== element || element.tagName === "SELECT") {
        element.value = value;
      }
    };
    set(this.find(".opacity"), opacity);
    for (const [name, { element, offer }] of this.settings) {
      offer(this.info.controls[name]); // one that is not among those to choose from
      set(element, key(this.info.controls[name]));
    }
  }

  showFigures() {
    const figures = this.info.figures;
    const trend = figures.audit_trend;
    const half = Math.floor(trend.length / 2);
    const step = half >= 3 ? mean(trend.slice(-half)) - mean(trend.slice(0, half)) : 0;
    const arrow = Math.abs(step) < 0.002 ? "→" : step > 0 ? "↗" : "↘";
    const rows = {
      "source FPS": number(figures.source_fps),
      "results FPS": number(figures.process_fps),
      "network FPS": number(figures.network_fps),
      "dropped": `${figures.dropped}${figures.skipped_fps ? ` (${number(figures.skipped_fps)}/s)` : ""}`,
      "latency p50 / p95": `${number(figures.latency_p50_ms)} / ${number(figures.latency_p95_ms)} ms`,
      "network takes": figures.network_ms === null ? "–" : `${number(figures.network_ms)} ms`,
      "age of the anchor": figures.anchor_frames === null ? "–" :
        `${figures.anchor_frames} frame${figures.anchor_frames === 1 ? "" : "s"}${figures.anchor_ms === null ? "" : `, ${Math.round(figures.anchor_ms)} ms`}`,
      "audit: changed": figures.audit === null ? "–" : `${percent(figures.audit)}, mean ${percent(figures.audit_mean)}\u00a0${arrow}`,
      "reconnects": String(figures.reconnects),
      "viewers": String(this.info.viewers),
    };
    const list = this.find(".figures");
    if (!list.children.length) {
      for (const name of Object.keys(rows)) {
        const row = document.createElement("div");
        const term = document.createElement("dt");
        term.textContent = name;
        row.append(term, document.createElement("dd"));
        list.append(row);
      }
    }
    Object.values(rows).forEach((text, at) => {
      list.children[at].lastElementChild.textContent = text;
    });
  }

  showAreas() {
    const shares = Object.entries(this.info.figures.areas).sort((one, other) => other[1] - one[1]);
    const color = (name) => {
      const rgb = this.info.classes[name];
      return rgb ? `rgb(${rgb.join(" ")})` : "gray";
    };
    const bar = this.find(".areas");
    bar.hidden = !shares.length;
    bar.setAttribute("aria-label", `Class areas: ${shares.map(([name, share]) => `${name} ${percent(share)}`).join(", ")}`);
    bar.replaceChildren(...shares.map(([name, share]) => {
      const part = document.createElement("span");
      part.style.width = `${100 * share}%`;
      part.style.background = color(name);
      return part;
    }));
    this.find(".legend").replaceChildren(...shares.slice(0, 8).map(([name, share]) => {
      const item = document.createElement("span");
      const swatch = document.createElement("i");
      swatch.style.background = color(name);
      item.append(swatch, `${name} ${percent(share)}`);
      return item;
    }));
  }
}

function key(value) {
  return value === null ? "" : String(value);
}

function show(value) {
  return value === null ? "no limit" : typeof value === "number" ? `${Number((100 * value).toFixed(2))} %` : value;
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function number(value) {
  return value === null ? "–" : value.toFixed(value < 100 ? 1 : 0);
}

function percent(share) {
  return `${(100 * share).toFixed(1)}\u00a0%`;
}
