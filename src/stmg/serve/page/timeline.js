// The last seconds of a stream: which frames the network computed, how drift grew between them, what audits found.

const SECONDS = 20;
const COLORS = ["anchor", "partial", "carry", "drift", "audit", "line", "faint"];

export class Timeline {
  constructor(canvas) {
    this.canvas = canvas;
    this.points = [];
  }

  add(points, replace) {
    if (replace) {
      this.points = [];
    }
    const last = this.points.at(-1)?.number ?? 0;
    this.points.push(...points.map(toPoint).filter((point) => point.number > last));
    const newest = this.points.at(-1)?.seconds ?? 0;
    this.points = this.points.filter((point) => point.seconds > newest - SECONDS);
  }

  draw() {
    const { canvas, points } = this;
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    if (!width) {
      return;
    }
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const style = getComputedStyle(canvas);
    const color = Object.fromEntries(COLORS.map((name) => [name, style.getPropertyValue(`--${name}`)]));
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const newest = points.at(-1)?.seconds ?? 0;
    const x = (point) => width - ((newest - point.seconds) / SECONDS) * width;
    const barHeight = 16;
    const plot = height - barHeight - 6;
    const most = Math.max(0.1, ...points.map((point) => Math.max(point.drift ?? 0, point.audit ?? 0)));
    const y = (value) => 4 + (plot - 8) * (1 - value / most);

    points.forEach((point, at) => {
      const left = at ? x(points[at - 1]) : x(point) - 2;
      context.fillStyle = point.anchored ? color.anchor : point.level === "partial" ? color.partial : color.carry;
      context.fillRect(left, height - barHeight, Math.max(1, x(point) - left - 0.5), barHeight);
    });
    context.strokeStyle = color.drift;
    context.lineWidth = 1.5;
    context.beginPath();
    points.forEach((point, at) => {
      const value = y(point.drift ?? 0);
      if (at) {
        context.lineTo(x(point), value);
      } else {
        context.moveTo(x(point), value);
      }
    });
    context.stroke();
    context.fillStyle = color.audit;
    for (const point of points) {
      if (point.audit !== null) {
        context.beginPath();
        context.arc(x(point), y(point.audit), 2.5, 0, 2 * Math.PI);
        context.fill();
      }
    }
    context.fillStyle = color.faint;
    context.font = "11px system-ui, sans-serif";
    context.fillText(most.toFixed(2), 4, 12);
    const computed = points.filter((point) => point.anchored).length;
    canvas.setAttribute("aria-label", `Last ${SECONDS} seconds: ${points.length} frames, ${computed} computed by the ` +
      `network, drift now ${(points.at(-1)?.drift ?? 0).toFixed(2)}`);
  }
}

function toPoint([number, seconds, level, anchored, distortion, drift, latency, audit]) {
  return { number, seconds, level, anchored, distortion, drift, latency, audit };
}
