// Videos dropped on the page: sent, followed while they are worked on, then shown.

import { call, problem } from "/page/api.js";

const RESULTS = { overlay: "overlay video", labels: "labels (PNG)", records: "records (JSON lines)" };
const template = document.getElementById("job");

export class Uploads {
  constructor(limits) {
    this.jobs = new Map();
    this.list = document.getElementById("jobs");
    this.refused = document.getElementById("refused");
    const section = document.getElementById("uploads");
    section.hidden = limits === null;
    if (limits === null) {
      return;
    }
    document.getElementById("limits").textContent = `Up to ${limits.megabytes} MB, ${limits.minutes} minutes and ` +
      `${limits.megapixels} megapixels a frame; results are removed after ${limits.keep_hours} hours.`;
    const input = document.getElementById("file");
    input.addEventListener("change", () => {
      this.send(input.files[0]);
      input.value = "";
    });
    this.takeDrops(document.getElementById("veil"));
  }

  takeDrops(veil) {
    const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
    window.addEventListener("dragover", (event) => {
      if (hasFiles(event)) {
        event.preventDefault();
        veil.hidden = false;
      }
    });
    window.addEventListener("dragleave", (event) => {
      if (event.relatedTarget === null) {
        veil.hidden = true;
      }
    });
    window.addEventListener("drop", (event) => {
      veil.hidden = true;
      if (hasFiles(event)) {
        event.preventDefault();
        this.send(event.dataTransfer.files[0]);
      }
    });
  }

  // XMLHttpRequest, because fetch does not say how much was sent.
  send(file) {
    if (!file) {
      return;
    }
    problem(this.refused, "");
    const request = new XMLHttpRequest();
    request.open("POST", `/api/uploads?name=${encodeURIComponent(file.name)}`);
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) {
        document.getElementById("limits").textContent = `Sending ${file.name}: ${Math.floor((100 * event.loaded) / event.total)} %`;
      }
    });
    request.addEventListener("load", () => {
      document.getElementById("limits").textContent = "";
      if (request.status === 201) {
        this.show(JSON.parse(request.responseText));
      } else {
        let reason = `The server answered ${request.status}.`;
        try {
          reason = JSON.parse(request.responseText).error;
        } catch {
          // It was no JSON.
        }
        problem(this.refused, `${file.name}: ${reason}`);
      }
    });
    request.addEventListener("error", () => problem(this.refused, `${file.name} could not be sent.`));
    request.send(file);
  }

  update(jobs) {
    const ids = new Set(jobs.map((job) => job.id));
    for (const [id, element] of this.jobs) {
      if (!ids.has(id)) {
        element.remove();
        this.jobs.delete(id);
      }
    }
    jobs.forEach((job) => this.show(job));
  }

  show(job) {
    if (!this.jobs.has(job.id)) {
      const element = template.content.cloneNode(true).querySelector(".job");
      element.dataset.upload = job.id;
      element.querySelector("strong").textContent = job.name;
      element.querySelector("progress").setAttribute("aria-label", `Progress of ${job.name}`);
      element.querySelector(".remove").addEventListener("click", async () => {
        try {
          await call("DELETE", `/api/uploads/${job.id}`);
        } catch (error) {
          problem(this.refused, error.message);
        }
      });
      this.list.prepend(element);
      this.jobs.set(job.id, element);
    }
    const element = this.jobs.get(job.id);
    const over = ["done", "failed", "canceled"].includes(job.state);
    element.querySelector(".badge").textContent = job.state;
    element.querySelector(".badge").className = `badge ${job.state}`;
    element.querySelector(".state").textContent = describe(job);
    element.querySelector(".remove").textContent = over ? "Remove" : "Cancel";
    const progress = element.querySelector("progress");
    progress.hidden = over;
    if (job.progress === null) {
      progress.removeAttribute("value");
    } else {
      progress.value = job.progress;
    }
    const done = element.querySelector(".results");
    if (job.state === "done" && done.hidden) {
      done.hidden = false;
      done.append(...results(job));
    }
  }
}

function describe(job) {
  if (job.error) {
    return job.error;
  }
  if (job.state !== "processing") {
    return job.state === "done" ? `${job.frames} frames` : `${job.megabytes} MB`;
  }
  if (!job.frames) {
    return "loading the model";
  }
  const total = job.total ? ` of ${job.total}` : "";
  return `${job.frames}${total} frames${job.seconds_left === null ? "" : `, about ${Math.ceil(job.seconds_left)} s left`}`;
}

function results(job) {
  const video = document.createElement("video");
  Object.assign(video, { controls: true, preload: "metadata", src: `/api/uploads/${job.id}/overlay`, muted: true, loop: true });
  video.setAttribute("aria-label", `Overlay of ${job.name}`);
  const links = document.createElement("p");
  links.className = "row";
  for (const [name, text] of Object.entries(RESULTS)) {
    const link = document.createElement("a");
    Object.assign(link, { href: `/api/uploads/${job.id}/${name}`, textContent: text, download: "" });
    links.append(link);
  }
  return [video, links];
}
