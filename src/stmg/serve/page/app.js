// The page: tiles that follow the events of the server.

import { ApiError, call, option, problem } from "/page/api.js";
import { PictureFeed } from "/page/pictures.js";
import { Tile } from "/page/tile.js";
import { Uploads } from "/page/uploads.js";

const section = document.getElementById("streams");
const tiles = new Map();
const feed = new PictureFeed((stream, view, bitmap) => tiles.get(stream)?.draw(view, bitmap));
let options;
let uploads;

function announce(text) {
  document.getElementById("announce").textContent = text;
}

function showPictures() {
  feed.show([...tiles.values()].map((tile) => `${tile.name}:${tile.view}`));
}

function follow(event) {
  const { time, history, streams, uploads: jobs } = JSON.parse(event.data);
  document.getElementById("lost").hidden = true;
  const names = new Set(streams.map((stream) => stream.name));
  for (const [name, tile] of tiles) {
    if (!names.has(name)) {
      tile.element.remove();
      tiles.delete(name);
    }
  }
  for (const stream of streams) {
    if (!tiles.has(stream.name)) {
      const tile = new Tile(stream.name, options, { changed: showPictures, announce });
      tiles.set(stream.name, tile);
      section.append(tile.element);
    }
    tiles.get(stream.name).update(stream, history, time);
  }
  showPictures();
  uploads.update(jobs);
  const live = streams.filter((stream) => stream.status.state === "live").length;
  document.getElementById("summary").textContent = `${live} of ${streams.length} streams live`;
  document.getElementById("none").hidden = streams.length > 0;
  document.title = `${live}/${streams.length} live · stmg`;
}

function listen() {
  const events = new EventSource("/api/events");
  events.addEventListener("figures", follow);
  events.addEventListener("error", () => {
    document.getElementById("lost").hidden = false;
    if (events.readyState === EventSource.CLOSED) {
      setTimeout(start, 1000);
    }
  });
}

function ask(dialog, work) {
  const form = dialog.querySelector("form");
  const note = dialog.querySelector(".problem");
  problem(note, "");
  dialog.querySelector("[data-close]")?.addEventListener("click", () => dialog.close(), { once: true });
  form.onsubmit = async (event) => {
    event.preventDefault();
    try {
      await work(new FormData(form));
      form.reset();
      dialog.close();
    } catch (error) {
      problem(note, error.message);
    }
  };
  if (!dialog.open) {
    dialog.showModal();
  }
}

function askForToken() {
  const dialog = document.getElementById("login");
  let accepted = false;
  dialog.oncancel = (event) => event.preventDefault();
  dialog.onclose = () => accepted || askForToken(); // a second Escape cannot be prevented
  ask(dialog, async (form) => {
    await call("POST", "/api/session", { token: form.get("token") });
    accepted = true;
    start();
  });
}

function askForStream() {
  const dialog = document.getElementById("add");
  dialog.querySelector("[name=source]").replaceChildren(...options.sources.map((name) => option(name)));
  const models = [option("", "that of the source"), ...options.models.map((name) => option(name))];
  dialog.querySelector("[name=model]").replaceChildren(...models);
  ask(dialog, (form) => {
    const body = { source: form.get("source") };
    for (const name of ["name", "model"]) {
      if (form.get(name)) {
        body[name] = form.get(name);
      }
    }
    return call("POST", "/api/streams", body);
  });
}

async function start() {
  try {
    options = await call("GET", "/api/options");
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      askForToken();
    } else {
      document.getElementById("lost").hidden = false;
      setTimeout(start, 1000);
    }
    return;
  }
  document.getElementById("lost").hidden = true;
  document.getElementById("add-open").disabled = false;
  uploads ??= new Uploads(options.uploads);
  listen();
}

document.getElementById("add-open").addEventListener("click", askForStream);
window.addEventListener("resize", () => tiles.forEach((tile) => tile.timeline.draw()));
start();
