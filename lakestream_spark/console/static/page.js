// The status page: asks the broker every two seconds while it is looked at, and shows what it says.
// Whatever came from clients becomes text nodes and nothing else: there is no markup in here.
"use strict";

const EVERY_MS = 2000;
const PATIENCE_MS = 40000;
const RANK = { red: 0, late: 1, well: 2 };
const byId = (id) => document.getElementById(id);
const numbers = new Intl.NumberFormat("en");
let newest = null; // the last answer of api/status
let timer = null;
let painted = false;
let looking = false;
let lookedAt = -EVERY_MS;
let step = 0; // the newest question for a record

// --- words and numbers

const count = (value) => (value === null || value === undefined ? "…" : numbers.format(value));

function perSecond(value) {
  if (value === null || value === undefined) return "…";
  return numbers.format(value < 10 ? Math.round(value * 10) / 10 : Math.round(value));
}

function bytes(value) {
  if (value === null || value === undefined) return "…";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

function duration(seconds) {
  if (seconds < 1) return "0 s";
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

const ago = (at, now) => (at === null ? "never" : `${duration(Math.max(0, now - at) / 1000)} ago`);

function exactTime(ms) {
  const at = new Date(ms);
  return Number.isNaN(at.getTime()) ? `${ms} ms` : at.toISOString().replace("T", " ").replace("Z", " UTC");
}

// --- elements

function el(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === "class") made.className = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((each) => each !== null));
  return made;
}

// Cells are written only when they change, so that a page with many topics stays quiet.
function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function toTopic(name) {
  return el("a", { href: `#${new URLSearchParams({ view: "topic", topic: name })}` }, name);
}

const emptyBar = el("div", null, el("div", { class: "bar", role: "img" },
  el("span", { class: "in-table" }), el("span", { class: "in-wal" })));

// The table end's label stands over the seam: as far from both sides as the seam is, never beyond.
function bar(withEnds) {
  const node = emptyBar.cloneNode(true);
  const own = node.firstChild;
  const [inTable, inWal] = own.children;
  const [before, tableEnd, after, start, end] = Array.from({ length: 5 }, () => el("span"));
  if (withEnds) {
    node.prepend(el("div", { class: "ends" }, before, tableEnd, after));
    node.append(el("div", { class: "ends" }, start, end));
  }
  node.show = (each) => {
    const told = `log start ${count(each.log_start)}, table end ${count(each.table_end)}, high watermark ${count(each.high_watermark)}`;
    if (own.title === told) return;
    own.title = told;
    own.setAttribute("aria-label", told);
    const kept = Math.max(0, each.table_end - each.log_start);
    const tail = Math.max(0, each.high_watermark - Math.max(each.table_end, each.log_start));
    for (const [part, size] of [[inTable, kept], [inWal, tail]]) {
      part.style.flexGrow = kept + tail ? size / (kept + tail) : 0;
      part.classList.toggle("some", size > 0);
    }
    if (!withEnds) return;
    before.style.flexGrow = inTable.style.flexGrow;
    after.style.flexGrow = kept + tail ? inWal.style.flexGrow : 1;
    tableEnd.textContent = `table end ${count(each.table_end)}`;
    start.textContent = `start ${count(each.log_start)}`;
    end.textContent = `high watermark ${count(each.high_watermark)}`;
  };
  return node;
}

// A table whose rows stay: `columns` are [title, class, fill(cell, row, now)]; the first names the row.
class Grid {
  constructor(place, caption, columns, key, empty) {
    Object.assign(this, { place, columns, key, rows: new Map() });
    this.body = el("tbody", { role: "rowgroup" });
    const titles = columns.map(([title, kind]) => el("th", { scope: "col", role: "columnheader", class: kind }, title));
    this.table = el("table", { role: "table", "aria-label": caption },
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...titles)), this.body);
    this.empty = el("p", { class: "empty" }, empty);
    // Rows are copies of one: many are made at once when the page is opened.
    this.model = el("tr", { role: "row" }, ...columns.map(([title, kind], at) => (at === 0
      ? el("th", { scope: "row", role: "rowheader" })
      : el("td", { class: kind, role: "cell", "data-label": title }))));
    place.append(this.table, this.empty);
  }

  show(found, now) {
    this.table.hidden = found.length === 0;
    this.empty.hidden = found.length > 0;
    const gone = new Set(this.rows.keys());
    for (const each of found) {
      const key = this.key(each);
      gone.delete(key);
      let row = this.rows.get(key);
      if (!row) {
        row = this.row();
        this.rows.set(key, row);
      }
      this.columns.forEach(([, , fill], at) => fill(row.cells[at], each, now));
    }
    for (const key of gone) { this.rows.get(key).node.remove(); this.rows.delete(key); }
    const nodes = found.map((each) => this.rows.get(this.key(each)).node);
    if (nodes.some((node, at) => this.body.children[at] !== node)) this.body.append(...nodes);
  }

  row() {
    const node = this.model.cloneNode(true);
    return { node, cells: [...node.children] };
  }
}

function once(cell, make) {
  if (!cell.firstChild) cell.append(make());
  return cell.firstChild;
}

const text = (read) => (cell, each, now) => write(cell, String(read(each, now)));
const seam = (withEnds) => (cell, each) => once(cell, () => bar(withEnds)).show(each);

function state(cell, each) {
  if (cell.textContent === each.state) return;
  cell.replaceChildren(el("span", { class: `state ${each.state}` }, each.state));
}

function alive(cell, each) {
  const told = each.live ? "runs" : "silent";
  if (cell.textContent === told) return;
  cell.replaceChildren(el("span", { class: `state ${each.live ? "well" : "red"}` }, told));
}

// Batches that became no rows: nothing is red because of them, and somebody should know.
function aside(cell, each) {
  const told = count(each.quarantined);
  if (cell.textContent === told) return;
  cell.replaceChildren(el("span", { class: each.quarantined ? "state late" : "" }, told));
}

const inShort = (table) => (table === null ? "…" : `${count(table.files)} × ${bytes(table.median_bytes)}`);

const grids = {
  topics: new Grid(byId("topics"), "Topics", [
    ["Topic", "", (cell, each) => once(cell, () => toTopic(each.name))],
    ["Records/s", "number", text((each) => perSecond(each.records_per_s))],
    ["Bytes/s", "number", text((each) => bytes(each.bytes_per_s))],
    ["Stream", "wide", seam(false)],
    ["High watermark", "number", text((each) => count(each.high_watermark))],
    ["Not in table", "number", text((each) => (each.lag_records ? `${count(each.lag_records)}, ${duration(each.lag_s)}` : "0"))],
    ["WAL", "number", text((each) => bytes(each.wal_bytes))],
    ["Files × median", "number", text((each) => (each.table_end ? inShort(each.table) : "none"))],
    ["Set aside", "number", aside],
    ["State", "state-cell", state],
  ], (each) => each.name, "There are no topics yet. The first record that is sent makes one."),
  groups: new Grid(byId("groups"), "Consumer groups", [
    ["Group", "", text((each) => each.group)],
    ["Behind", "number", text((each) => count(each.lag))],
    ["Topics", "", text((each) => each.topics.map((own) => `${own.topic}: ${count(own.lag)}`).join(", ") || "none")],
    ["Last commit", "", text((each, now) => ago(each.topics.reduce((last, own) => Math.max(last, own.committed_ms), 0) || null, now))],
    ["Members", "", text((each) => (each.has_members ? "yes" : "none"))],
  ], (each) => each.group, "No group has committed an offset yet."),
  brokers: new Grid(byId("brokers"), "Brokers", [
    ["Broker", "", text((each) => `broker ${each.node_id}`)],
    ["Address", "", text((each) => each.address + (each.rack ? ` (${each.rack})` : ""))],
    ["Started", "", text((each, now) => ago(each.started_ms, now))],
    ["State", "state-cell", alive],
  ], (each) => each.node_id, "No broker is registered."),
  jobs: new Grid(byId("jobs"), "Jobs", [
    ["Job", "", text((each) => each.kind)],
    ["Topics", "", text((each) => each.topics)],
    ["Last success", "", text((each, now) => ago(each.last_success_ms, now))],
    ["Started", "", text((each, now) => ago(each.started_ms, now))],
    ["State", "state-cell", alive],
  ], (each) => each.id, "No job runs: records stay in the WAL until `lakestream compact` does."),
  partitions: new Grid(byId("partitions"), "Partitions", [
    ["Partition", "", text((each) => `partition ${each.partition}`)],
    ["Stream", "wide", seam(true)],
    ["Not in table", "number", text((each) => count(each.high_watermark - Math.max(each.table_end, each.log_start)))],
    ["Records", "", (cell, each) => {
      const at = { view: "record", topic: each.topic, partition: each.partition, offset: Math.max(each.log_start, each.high_watermark - 1), toward: "previous" };
      once(cell, () => el("a", {}, "newest")).href = `#${new URLSearchParams(at)}`;
    }],
  ], (each) => each.partition, "…"),
  snapshots: new Grid(byId("snapshots"), "Newest snapshots", [
    ["Snapshot", "", text((each) => each.snapshot_id)],
    ["Made", "", (cell, each, now) => { write(cell, ago(each.at_ms, now)); cell.title = exactTime(each.at_ms); }],
    ["What", "", text((each) => each.operation)],
    ["Rows", "number", text((each) => (each.rows > 0 ? `+${count(each.rows)}` : count(each.rows)))],
    ["All rows", "number", text((each) => count(each.total_rows))],
    ["Files", "number", text((each) => count(each.files))],
  ], (each) => each.snapshot_id, "No snapshot yet."),
  settings: new Grid(byId("settings"), "Settings", [
    ["Setting", "", text((each) => each[0])],
    ["Value", "", text((each) => each[1])],
  ], (each) => each[0], "All settings are the defaults."),
};

function sums(place, found) {
  for (const [title, value] of Object.entries(found)) {
    const id = `${place.id}-${title.replaceAll(/\W/g, "")}`;
    let own = byId(id);
    if (!own) {
      own = el("dd", { id });
      place.append(el("div", null, el("dt", null, title), own));
    }
    write(own, value);
  }
}

// --- asking

async function ask(path) {
  const patience = AbortSignal.timeout(PATIENCE_MS);
  let response;
  try {
    response = await fetch(path, { signal: patience });
  } catch {
    throw new Error("The broker does not answer. What is shown is from before.");
  }
  const body = await response.json().catch(() => ({ error: `the answer ${response.status} is no JSON` }));
  if (!response.ok) throw new Error(body.error || `the broker answered ${response.status}`);
  return body;
}

function complain(sentence) {
  const place = byId("trouble");
  write(place, sentence || "");
  place.hidden = !sentence;
}

function route() {
  const found = new URLSearchParams(location.hash.slice(1));
  return { view: found.get("view") || "list", get: (name) => found.get(name) };
}

// At most every two seconds, whatever asks for it.
function lookSoon() {
  clearTimeout(timer);
  if (looking || document.hidden) return;
  timer = setTimeout(look, Math.max(0, lookedAt + EVERY_MS - performance.now()));
}

async function look() {
  looking = true;
  lookedAt = performance.now();
  try {
    newest = await ask("api/status");
    showList(newest);
    if (route().view === "topic") await showTopic(route().get("topic"));
    else complain(newest.tables_trouble);
    write(byId("pulse"), `broker ${newest.node_id} · ${exactTime(newest.now_ms).slice(11, 19)} UTC`);
  } catch (error) {
    complain(error.message);
    write(byId("pulse"), "trying again …");
  }
  looking = false;
  lookSoon();
}

// --- the overview

function showList(found) {
  const total = (read) => found.topics.reduce((sum, each) => sum + (read(each) || 0), 0);
  const known = found.topics.length === 0 || found.topics.some((each) => each.records_per_s !== null);
  const looked = found.topics.every((each) => each.quarantined !== null);
  sums(byId("sums"), {
    Topics: count(found.topics.length),
    "Records/s": known ? perSecond(total((each) => each.records_per_s)) : "…",
    "Bytes/s": known ? bytes(total((each) => each.bytes_per_s)) : "…",
    "Not in tables": `${count(total((each) => each.lag_records))}`,
    "Oldest of it": duration(Math.max(0, ...found.topics.map((each) => each.lag_s))),
    "Set aside": looked ? count(total((each) => each.quarantined)) : "…",
    Brokers: count(found.brokers.filter((each) => each.live).length),
    Problems: count(found.problems.length),
  });
  const wanted = byId("filter").value.trim().toLowerCase();
  const topics = found.topics.filter((each) => each.name.toLowerCase().includes(wanted));
  topics.sort((one, other) => RANK[one.state] - RANK[other.state]); // by name within each state
  grids.topics.show(topics, found.now_ms);
  if (found.topics.length && !topics.length) write(grids.topics.empty, "No topic has that in its name.");
  grids.groups.show(found.groups, found.now_ms);
  grids.brokers.show(found.brokers, found.now_ms);
  grids.jobs.show(found.jobs, found.now_ms);
  byId("problems-part").hidden = found.problems.length === 0;
  byId("problems").replaceChildren(...found.problems.map((each) => problem(each, found.now_ms)));
  const names = byId("topic-names");
  if (names.children.length !== found.topics.length) {
    names.replaceChildren(...found.topics.map((each) => el("option", { value: each.name })));
  }
  if (!painted) {
    painted = true;
    requestAnimationFrame(() => setTimeout(() => performance.mark("topics-painted")));
  }
}

function problem(each, now) {
  const where = each.partition === null ? "" : ` partition ${each.partition}`;
  const at = each.offset === null ? "" : ` at offset ${count(each.offset)}`;
  return el("li", null, toTopic(each.topic), `${where}${at}: ${each.sentence} `,
    el("span", { class: "quiet" }, `(for ${duration(Math.max(0, now - each.since_ms) / 1000)})`),
    el("span", { class: "remedy" }, each.remedy));
}

// --- one topic

async function showTopic(name) {
  write(byId("topic-title"), name);
  const found = await ask(`api/topic?${new URLSearchParams({ topic: name })}`);
  if (route().get("topic") !== name) return;
  const now = newest ? newest.now_ms : Date.now();
  const own = newest && newest.topics.find((each) => each.name === name);
  const table = found.table;
  sums(byId("topic-sums"), {
    "Records/s": own ? perSecond(own.records_per_s) : "…",
    "Bytes/s": own ? bytes(own.bytes_per_s) : "…",
    "Not in table": own ? count(own.lag_records) : "…",
    "Oldest of it": own ? duration(own.lag_s) : "…",
    "WAL": own ? bytes(own.wal_bytes) : "…",
    "Set aside": own ? count(own.quarantined) : "…",
    "Table": table ? bytes(table.bytes) : "…",
    "Files": table ? count(table.files) : "…",
    "Median file": table ? bytes(table.median_bytes) : "…",
    "Snapshots": table ? count(table.snapshots) : "…",
  });
  grids.partitions.show(found.partitions.map((each) => ({ ...each, topic: name })), now);
  const created = `The topic was made ${ago(found.created_ms, now)}.`;
  if (table) write(byId("table-about"), `${table.table}. ${created}`);
  else if (!found.table_trouble) write(byId("table-about"), `The first commit will make the table. ${created}`);
  if (table || !found.table_trouble) grids.snapshots.show(table ? table.newest_snapshots : [], now);
  grids.settings.show(Object.entries(found.config), now);
  complain(found.table_trouble);
}

// --- one record

async function showRecord() {
  const asked = route();
  const form = byId("ask").elements;
  for (const name of ["topic", "partition", "offset"]) {
    if (asked.get(name) !== null) form[name].value = asked.get(name);
  }
  if (!asked.get("topic")) { byId("found").replaceChildren(el("p", { class: "empty" }, "Name a topic, a partition and an offset.")); return steps(null); }
  const mine = ++step;
  const question = new URLSearchParams();
  for (const name of ["topic", "partition", "offset", "toward"]) {
    if (asked.get(name) !== null) question.set(name, asked.get(name));
  }
  let shown;
  let found = null;
  let ways;
  try {
    found = await ask(`api/record?${question}`);
    shown = record(found);
    ways = { ...found, first: found.offset > found.log_start ? found.log_start : null, last: found.next === null ? null : found.high_watermark - 1 };
  } catch (error) {
    shown = [el("p", { class: "empty", role: "alert" }, error.message)];
    ways = await waysBack(asked.get("topic"), asked.get("partition"));
  }
  if (mine !== step) return;
  byId("found").replaceChildren(...shown);
  if (found) form.offset.value = found.offset;
  steps(ways);
}

// From where no record was found: to the first and to the last of the partition, if it has any.
async function waysBack(topic, partition) {
  const found = await ask(`api/topic?${new URLSearchParams({ topic })}`).catch(() => null);
  const own = found && found.partitions.find((each) => String(each.partition) === partition);
  if (!own || own.log_start >= own.high_watermark) return null;
  return { topic, partition, first: own.log_start, previous: null, next: null, last: own.high_watermark - 1 };
}

function steps(ways) {
  const to = (id, toward) => {
    const button = byId(id);
    const offset = ways && ways[id];
    button.disabled = offset === null;
    button.onclick = () => {
      location.hash = new URLSearchParams({ view: "record", topic: ways.topic, partition: ways.partition, offset, toward });
    };
  };
  to("first", "next");
  to("previous", "previous");
  to("next", "next");
  to("last", "previous");
}

function record(found) {
  const told = found.asked === found.offset ? null
    : el("p", { class: "empty" }, `Nothing is at offset ${count(found.asked)} any more; this is the nearest record.`);
  const source = found.source === "wal" ? "from the WAL" : "from the table";
  const seamBar = bar(true);
  seamBar.show(found);
  return [told, el("div", { class: "block" },
    el("h3", null, `${found.topic}, partition ${found.partition}, offset ${count(found.offset)}`,
      el("span", { class: `source ${found.source}`, id: "source", title: found.where }, source)),
    el("p", { class: "quiet" }, `${exactTime(found.timestamp_ms)} (${found.timestamp_type} time)${found.where ? ` · ${found.where}` : ""}`),
    seamBar),
  field("Key", found.key), field("Value", found.value), ...headers(found.headers)].filter((each) => each !== null);
}

function headers(found) {
  if (!found.length) return [el("p", { class: "empty" }, "No headers.")];
  return found.map((each) => field(`Header ${each.key}`, each.value));
}

// Text, JSON or hex of some bytes: the first that there is, and buttons for the others.
function field(title, data) {
  if (data === null) return el("div", { class: "block" }, el("h3", null, title, el("span", { class: "null" }, "null")));
  const ways = [["JSON", data.json], ["Text", data.text], ["Hex", data.hex]].filter(([, each]) => each !== null);
  const place = el("pre", { tabindex: "0", "aria-label": title });
  const buttons = ways.map(([name, each]) => {
    const button = el("button", { type: "button" }, name);
    button.addEventListener("click", () => {
      place.textContent = each;
      buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
    });
    return button;
  });
  buttons[0].click();
  const size = `${count(data.size)} bytes${data.cut ? ", the beginning is shown" : ""}`;
  return el("div", { class: "block" },
    el("h3", null, title, el("span", { class: "quiet" }, size), el("span", { class: "ways", role: "group", "aria-label": `Show ${title} as` }, ...buttons)),
    data.size ? place : el("p", { class: "null" }, "empty"));
}

// --- moving about

function show() {
  const { view } = route();
  for (const each of ["list", "topic", "record"]) byId(each).hidden = each !== view;
  document.querySelectorAll("header nav a").forEach((link) => {
    const own = { "": "list", "#view=record": "record" }[link.hash];
    if (own === view && !route().get("part")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  });
  complain(null);
  if (view === "topic") {
    for (const each of ["partitions", "snapshots", "settings"]) grids[each].show([], 0);
    byId("topic-sums").replaceChildren();
    write(byId("table-about"), "");
    const name = route().get("topic");
    document.title = `${name} · lakestream`;
    showTopic(name).catch((error) => complain(error.message));
  } else {
    document.title = "lakestream";
  }
  if (view === "record") showRecord();
  const part = byId(`${route().get("part")}-title`);
  if (part) part.scrollIntoView();
  else scrollTo(0, 0);
}

byId("filter").addEventListener("input", () => newest && showList(newest));
byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const given = Object.fromEntries(new FormData(event.target));
  const hash = `#${new URLSearchParams({ view: "record", ...given })}`;
  if (location.hash === hash) showRecord();
  else location.hash = hash;
});
window.addEventListener("hashchange", show);
document.addEventListener("visibilitychange", lookSoon);
show();
lookSoon();
