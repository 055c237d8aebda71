// Zooming into the timeline. Without it the page shows the whole run, and every table.
"use strict";
(() => {
  const block = document.getElementById("data");
  const plot = document.getElementById("plot");
  if (!block || !plot) return;
  const data = JSON.parse(block.textContent);
  const said = document.getElementById("said");
  const rows = [...plot.querySelectorAll("li")];
  const pictures = rows.map((row) => row.querySelector("svg"));
  const labels = pictures.map((picture) => picture.getAttribute("aria-label"));
  const ticks = plot.querySelector(".ticks");
  const HEIGHT = 24;
  // More jobs than this in view are shown as columns.
  const MOST = 3000;
  const SVG = "http://www.w3.org/2000/svg";
  const jobs = data.windows.flatMap((window) => window.jobs);
  const lateOf = new Map(data.late.map((late) => [late[0] + ":" + late[1], late]));
  let view = [0, data.span];
  let lane = 0;
  let chosen = null;

  const short = (nanos) => {
    const size = Math.abs(nanos);
    const [unit, name] =
      size < 1e3 ? [1, "ns"] : size < 1e6 ? [1e3, "µs"] : size < 1e9 ? [1e6, "ms"] : [1e9, "s"];
    return +(nanos / unit).toPrecision(4) + " " + name;
  };

  const instant = (nanos) => +(nanos / 1e9).toFixed(6) + " s";

  // As many digits as tell a tick from the next.
  const tickText = (nanos, step) => {
    const size = Math.max(view[1], step);
    const [unit, name] =
      size < 1e3 ? [1, "ns"] : size < 1e6 ? [1e3, "µs"] : size < 1e9 ? [1e6, "ms"] : [1e9, "s"];
    const digits = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
    return (nanos / unit).toFixed(Math.min(digits, 9)) + " " + name;
  };

  const place = (at) => (1000 * (Math.min(Math.max(at, view[0]), view[1]) - view[0])) / (view[1] - view[0]);
  const box = (from, to, top, bottom) => {
    const x = place(from);
    const end = Math.max(place(to), x + 0.8);
    return "M" + x.toFixed(2) + " " + top + "H" + end.toFixed(2) + "V" + bottom + "H" + x.toFixed(2) + "Z";
  };
  const isIn = (from, to) => to >= view[0] && from <= view[1];

  const draw = (picture, paths) => {
    picture.replaceChildren();
    for (const [name, d] of paths) {
      if (!d) continue;
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("class", name);
      path.setAttribute("d", d);
      picture.append(path);
    }
  };

  // How busy the lane was, but for columns of which every job is drawn.
  const columns = (row, isDrawn) => {
    const width = data.span / row.busy.length;
    const first = Math.max(0, Math.floor(view[0] / width));
    const last = Math.min(row.busy.length - 1, Math.floor(view[1] / width));
    let area = "";
    for (let at = first; at <= last; at++) {
      const [from, to] = [at * width, (at + 1) * width];
      if (!row.busy[at] || isDrawn(from, to)) continue;
      const [x, end] = [place(from).toFixed(2), place(to).toFixed(2)];
      area += "M" + x + " 24V" + (24 - row.busy[at] * 0.19).toFixed(1) + "H" + end + "V24Z";
    }
    return area;
  };

  const render = () => {
    const shown = jobs.filter((job) => isIn(job[2], job[4]));
    const each = shown.length <= MOST;
    const isDrawn = (from, to) => each && data.windows.some((one) => one.from <= from && to <= one.to);
    data.lanes.forEach((row, at) => {
      const paths = { r: columns(row, isDrawn), l: "", w: "", t: "", n: "", sel: "" };
      if (each) {
        for (const job of shown) {
          if (job[0] !== at) continue;
          if (job[5] === 3) paths.n += box(job[2], job[2], 2, 22);
          else paths.w += box(job[2], job[4], 11, 13);
          for (let n = 0; n < job[6].length; n += 2) {
            if (isIn(job[6][n], job[6][n + 1])) paths.r += box(job[6][n], job[6][n + 1], 6, 18);
          }
          for (let n = 0; n < job[7].length; n += 2) {
            if (isIn(job[7][n], job[7][n + 1])) paths.t += box(job[7][n], job[7][n + 1], 8, 16);
          }
        }
      }
      const width = data.span / row.busy.length;
      if (each) {
        for (const late of data.late) {
          if (late[0] === at && isIn(late[3], late[4])) paths.l += box(late[3], late[4], 0, HEIGHT);
        }
      } else {
        for (const [column] of row.late) {
          if (isIn(column * width, (column + 1) * width)) paths.l += box(column * width, column * width, 0, HEIGHT);
        }
      }
      if (chosen && chosen.lane === at && isIn(chosen.from, chosen.to)) {
        paths.sel = box(chosen.from, chosen.to, 1, HEIGHT - 1);
      }
      draw(pictures[at], [["l", paths.l], ["w", paths.w], ["t", paths.t], ["r", paths.r], ["n", paths.n], ["sel", paths.sel]]);
      rows[at].classList.toggle("on", at === lane);
      const whole = view[0] <= 0 && view[1] >= data.span;
      pictures[at].setAttribute("aria-label", labels[at] + (whole ? "" : "; zoomed to " + instant(view[0]) + " to " + instant(view[1])));
    });
    const rough = (view[1] - view[0]) / (plot.clientWidth < 500 ? 3 : 7);
    const unit = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
    const step = [1, 2, 5, 10].map((n) => n * unit).find((one) => one >= rough);
    ticks.replaceChildren();
    for (let at = Math.ceil(view[0] / step) * step; at <= view[1]; at += step) {
      const tick = document.createElement("span");
      tick.style.left = place(at) / 10 + "%";
      tick.textContent = tickText(at, step);
      ticks.append(tick);
    }
    return each ? shown.length : -1;
  };

  const say = (text) => {
    said.textContent = text;
  };

  const sayView = (shown) => {
    const whole = view[0] <= 0 && view[1] >= data.span;
    const what = shown < 0 ? "how busy each lane was" : shown + (shown === 1 ? " job" : " jobs") + " one by one";
    say((whole ? "The whole run" : instant(view[0]) + " to " + instant(view[1])) + ": " + what + ".");
  };

  const show = (from, to) => {
    const length = Math.min(Math.max(to - from, 100), data.span);
    const begin = Math.min(Math.max(from, 0), data.span - length);
    view = [begin, begin + length];
    return render();
  };

  const zoom = (factor) => {
    const middle =
      chosen && isIn(chosen.from, chosen.to) ? (chosen.from + chosen.to) / 2 : (view[0] + view[1]) / 2;
    const length = (view[1] - view[0]) * factor;
    sayView(show(middle - length / 2, middle + length / 2));
  };

  const move = (part) => {
    const by = (view[1] - view[0]) * part;
    sayView(show(view[0] + by, view[1] + by));
  };

  const choose = (at, index, from, to, text) => {
    chosen = { lane: at, index, from, to };
    lane = at;
    say(text);
  };

  const tell = (at, index) => {
    const late = lateOf.get(at + ":" + index);
    const job = jobs.find((one) => one[0] === at && one[1] === index);
    let text = data.lanes[at].name + ", job " + index + ": ";
    const release = job ? job[2] : late[2];
    text += "released at " + instant(release);
    if (job) {
      if (job[3] !== null) text += ", began " + short(job[3] - release) + " later";
      text += ", " + data.fates[job[5]] + " after " + short(job[4] - release);
    }
    if (late) text += "; late by " + short(late[4] - late[3]) + ": " + late[5];
    return text + ".";
  };

  const chooseLate = (late) => {
    const margin = Math.max((late[4] - late[2]) / 2, 1000);
    choose(late[0], late[1], late[2], late[4], tell(late[0], late[1]));
    show(late[2] - margin, late[4] + margin);
  };

  const nextLate = (direction) => {
    if (!data.late.length) return say("No job was late.");
    let at = chosen ? data.late.findIndex((late) => late[0] === chosen.lane && late[1] === chosen.index) : -1;
    if (at < 0) {
      const middle = chosen ? chosen.from : direction > 0 ? view[0] - 1 : view[1];
      at = data.late.filter((late) => late[3] <= middle).length - (direction > 0 ? 1 : 0);
    }
    chooseLate(data.late[(at + direction + data.late.length) % data.late.length]);
  };

  const chooseJob = (job) => {
    choose(job[0], job[1], job[2], job[4], tell(job[0], job[1]));
    if (!isIn(job[2], job[4])) {
      const half = (view[1] - view[0]) / 2;
      show(job[2] - half, job[2] + half);
    } else render();
  };

  const nextJob = (direction) => {
    const here = jobs.filter((job) => job[0] === lane).sort((a, b) => a[2] - b[2]);
    if (!here.length) return say("No job of this lane is drawn one by one.");
    let at = chosen ? here.findIndex((job) => chosen.lane === lane && job[1] === chosen.index) : -1;
    if (at < 0) at = here.findIndex((job) => job[2] >= view[0]) - (direction > 0 ? 1 : 0);
    chooseJob(here[Math.min(Math.max(at + direction, 0), here.length - 1)]);
  };

  const nextLane = (direction) => {
    lane = Math.min(Math.max(lane + direction, 0), rows.length - 1);
    chosen = null;
    render();
    say(labels[lane] + ".");
  };

  const actions = {
    in: () => zoom(0.5),
    out: () => zoom(2),
    left: () => move(-0.25),
    right: () => move(0.25),
    whole: () => {
      chosen = null;
      sayView(show(0, data.span));
    },
    before: () => nextLate(-1),
    next: () => nextLate(1),
  };
  const keys = {
    "+": actions.in,
    "=": actions.in,
    "-": actions.out,
    "−": actions.out,
    ArrowLeft: actions.left,
    ArrowRight: actions.right,
    Home: () => sayView(show(0, view[1] - view[0])),
    End: () => sayView(show(data.span, data.span + view[1] - view[0])),
    0: actions.whole,
    Escape: actions.whole,
    n: actions.next,
    p: actions.before,
    ArrowUp: () => nextLane(-1),
    ArrowDown: () => nextLane(1),
    "[": () => nextJob(-1),
    "]": () => nextJob(1),
  };

  const controls = document.querySelector(".controls");
  controls.hidden = false;
  document.getElementById("keys").hidden = false;
  controls.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) actions[button.dataset.do]();
  });
  plot.tabIndex = 0;
  plot.setAttribute("role", "application");
  plot.setAttribute("aria-roledescription", "timeline");
  plot.setAttribute("aria-label", "Timeline of " + rows.length + (rows.length === 1 ? " lane" : " lanes"));
  plot.setAttribute("aria-describedby", "keys");
  plot.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  plot.addEventListener("click", (event) => {
    const at = pictures.indexOf(event.target.closest("svg"));
    if (at < 0) return;
    const frame = pictures[at].getBoundingClientRect();
    const time = view[0] + ((event.clientX - frame.left) / frame.width) * (view[1] - view[0]);
    const apart = (job) => Math.max(job[2] - time, time - job[4], 0);
    const near = jobs.filter((job) => job[0] === at && isIn(job[2], job[4])).sort((a, b) => apart(a) - apart(b))[0];
    lane = at;
    if (near) chooseJob(near);
    else nextLane(0);
  });
  addEventListener("resize", () => render());
  render();
})();
