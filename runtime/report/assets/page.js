// Hovering, arrow keys, and the memory of a chosen tile. The page is complete without this script.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const svgNamespace = "http://www.w3.org/2000/svg";
  const uses = ["value", "operand", "parameter", "code", "table", "host", "support"];
  const number = (value) => value.toLocaleString("en-US");
  const element = (id) => document.getElementById(id);

  // A drawing of many rectangles with one selected: by pointer, or by arrow keys in the order of the rectangles.
  function selectable(svg, describe, output) {
    let selected = null;
    const select = (rect) => {
      if (selected) selected.classList.remove("selected");
      selected = rect;
      if (!rect) return;
      rect.classList.add("selected");
      output.textContent = describe(rect);
    };
    svg.addEventListener("pointermove", (event) => { if (event.target.tagName === "rect") select(event.target); });
    svg.addEventListener("pointerdown", (event) => { if (event.target.tagName === "rect") select(event.target); });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const all = [...svg.querySelectorAll("rect")];
      if (!step || all.length === 0) return;
      event.preventDefault();
      select(all[Math.max(0, Math.min(all.length - 1, selected ? all.indexOf(selected) + step : 0))]);
    });
    return () => select(null);
  }

  const timeline = element("timeline");
  if (timeline) {
    selectable(timeline, (rect) => {
      const [stage, operation, what, kind, begin, cycles, times] = data.stages[Number(rect.dataset.s)];
      return `stage ${stage}: ${operation || "program"}, ${what} (${kind}), ${number(cycles)} cycles from ${number(begin)}` +
        (times > 1 ? `, ${times} times` : "");
    }, element("timeline-text"));
  }

  // The buffers of a tile, as [description, bytes] pairs.
  function buffersOf(tile) {
    const flat = data.lists[data.listOf[tile]], buffers = [];
    for (let i = 0; i < flat.length; i += 2) {
      const [name, operation, use, address, first, last] = data.buffers[flat[i]];
      const passing = use < 2 || use === 5;
      const begin = passing ? Math.min(Math.max(first, 0), data.stageCount) : 0;
      const end = passing ? Math.max(begin + 1, Math.min(last, data.stageCount)) : data.stageCount;
      buffers.push({ name, operation, use, address, bytes: flat[i + 1], begin, end });
    }
    return buffers;
  }

  const memory = element("memory");
  let shown = data.peakTile, forget = () => {};
  if (memory) {
    forget = selectable(memory, (rect) => {
      const b = buffersOf(shown)[Number(rect.dataset.b)];
      return `${b.name}${b.operation ? " of " + b.operation : ""} (${uses[b.use]}): ${number(b.bytes)} bytes at ` +
        `0x${b.address.toString(16)}, stages ${b.begin} to ${b.end - 1}`;
    }, element("memory-text"));
  }

  function showTile(tile) {
    if (!memory) return;
    forget();
    shown = tile;
    for (const rect of memory.querySelectorAll("rect")) rect.remove();
    const marks = memory.firstElementChild, scale = 1000 / data.capacity;
    buffersOf(tile).forEach((b, index) => {
      const rect = document.createElementNS(svgNamespace, "rect");
      rect.setAttribute("class", "u" + b.use);
      rect.dataset.b = index;
      rect.setAttribute("x", b.begin);
      rect.setAttribute("y", (b.address - data.base) * scale);
      rect.setAttribute("width", b.end - b.begin);
      rect.setAttribute("height", Math.max(b.bytes * scale, 0.8));
      memory.insertBefore(rect, marks);
    });
    const peak = data.peaks[tile];
    memory.querySelector(".mark").setAttribute("d", `M${peak + 0.5} 0V1000`);
    element("memory-title").textContent = `Tile ${tile}${tile === data.peakTile ? ", the fullest" : ""}: ` +
      `${number(data.maps.memory.values[tile])} bytes at stage ${peak}, of ${number(data.capacity)}.`;
  }

  // Maps of the chip: cells are 64 a row with a gap of half a cell after every four.
  const tileAt = new Map(data.physical.map((physical, tile) => [physical, tile]));
  const height = data.rows <= 4 ? 4 : 1.6;
  const cellX = (place) => place + 0.5 * Math.floor(place / 4);
  const maps = [...document.querySelectorAll(".chip")];
  let chosen = data.physical[data.peakTile];
  const cursors = maps.map((svg) => {
    const rect = document.createElementNS(svgNamespace, "rect");
    rect.setAttribute("class", "cursor");
    rect.setAttribute("width", 1);
    rect.setAttribute("height", height);
    rect.setAttribute("visibility", "hidden");
    svg.append(rect);
    return rect;
  });
  function pointAt(physical) {
    const tile = tileAt.get(physical);
    if (tile === undefined) return;
    chosen = physical;
    for (const rect of cursors) {
      rect.setAttribute("x", cellX(physical % 64) - 0.04);
      rect.setAttribute("y", Math.floor(physical / 64) * height - 0.05);
      rect.setAttribute("visibility", "visible");
    }
    const values = Object.values(data.maps).map((map) => map.values[tile]);
    element("chip-text").textContent = `tile ${tile} (physical ${physical}, row ${Math.floor(physical / 64)}, column ${(physical >> 2) & 15}): ` +
      `${number(values[0])} bytes, ${number(values[1])} cycles of work, ${number(values[2])} words received, ${number(values[3])} sent`;
  }
  function physicalAt(svg, event) {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
    const y = (event.clientY - box.top) / box.height * svg.viewBox.baseVal.height;
    const column = Math.min(15, Math.floor(x / 4.5));
    return 64 * Math.floor(y / height) + 4 * column + Math.min(3, Math.floor(x - 4.5 * column));
  }
  for (const svg of maps) {
    svg.addEventListener("pointermove", (event) => pointAt(physicalAt(svg, event)));
    svg.addEventListener("click", (event) => {
      pointAt(physicalAt(svg, event));
      showTile(tileAt.get(chosen));
    });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 64, ArrowUp: -64 }[event.key];
      if (step) pointAt(chosen + step);
      if (event.key === "Enter") showTile(tileAt.get(chosen));
      if (step || event.key === "Enter") event.preventDefault();
    });
  }

  const copy = element("copy");
  if (copy && navigator.clipboard) {
    copy.hidden = false;
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(element("command").textContent);
      copy.textContent = "Copied";
    });
  }
})();
