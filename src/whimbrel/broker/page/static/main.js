// The page begins here: who calls, then the feed, the playground and the map.

import { call, element } from "./broker.js";
import { Charts } from "./charts.js";
import { Playground } from "./playground.js";
import { Tail } from "./tail.js";

const OVERLAY_SECONDS = 5;
const byId = (id) => document.getElementById(id);
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

function show(id, text) {
  byId(id).textContent = text;
}

function milliseconds(value) {
  return value < 10 ? `${value.toFixed(1)} ms` : `${whole.format(value)} ms`;
}

function showSample(sample) {
  for (const name of ["published", "matched", "delivered", "streams"]) show(name, short.format(sample[name]));
  show("subscriptions", sample.subscriptions < 1e5 ? whole.format(sample.subscriptions) : short.format(sample.subscriptions));
  show("p99", sample.latency ? milliseconds(sample.latency[2]) : "–");
  show("end", whole.format(sample.end));
}

function state(name, text) {
  byId("state").className = `state ${name}`;
  show("state", text);
}

/** Make the parts that show the feed, once. Returns what opens the feed, which may be lost and opened again. */
function follower(playground) {
  const charts = new Charts(byId("rates"), byId("latency"));
  const tail = new Tail((event) => playground.bring(event));
  showOverlay();
  setInterval(showOverlay, OVERLAY_SECONDS * 1000);
  return () => {
    const feed = new EventSource("/live");
    feed.addEventListener("history", (event) => {
      state("live", "live");
      charts.begin(JSON.parse(event.data));
    });
    feed.addEventListener("second", (event) => {
      const second = JSON.parse(event.data);
      charts.add(second.sample);
      showSample(second.sample);
      tail.add(second.tail);
      tail.busiest(second.busiest);
      playground.saw(second.tail);
    });
    feed.addEventListener("end", () => { feed.close(); location.reload(); });
    feed.onerror = () => {
      state("down", "reconnecting");
      if (feed.readyState === EventSource.CLOSED) setTimeout(start, 3000);
    };
  };
}

async function showOverlay() {
  const { links } = await call("GET", "/overlay").catch(() => ({ links: [] })); // the feed tells when there is no answer
  byId("overlay").hidden = byId("overlay-link").hidden = links.length === 0;
  if (links.length) {
    byId("overlay-map").src = `/overlay.svg?at=${Date.now()}`;
    const rows = links.map((link) => {
      const row = document.createElement("tr");
      const name = link.name || link.peer;
      const cells = [name, link.connected ? "connected" : "down", `${link.events_in} in`, `${link.events_out} out`];
      row.append(...cells.map((text) => element("td", text)));
      return row;
    });
    byId("overlay-links").replaceChildren(...rows);
  }
}

let playground = null;
let listen = null;

async function start() {
  let who;
  try {
    who = await call("GET", "/session");
  } catch (error) {
    if (error.status !== 401) {
      state("down", "no answer");
      setTimeout(start, 3000);
      return;
    }
    state("", "log in");
    byId("login").hidden = false;
    byId("token").focus();
    return;
  }
  byId("login").hidden = true;
  document.querySelector("main").hidden = false;
  show("who", who.session ? who.name : "");
  byId("logout").hidden = !who.session;
  playground ??= new Playground();
  const reads = who.scopes.includes("subscribe") || who.scopes.includes("admin");
  if (reads && !who.constrained) {
    listen ??= follower(playground);
    listen();
  } else {
    state("live", "connected");
    byId("no-rates").hidden = false;
    for (const one of document.querySelectorAll(".tiles, #now .columns, #events")) one.hidden = true;
  }
}

byId("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  show("login-error", "");
  try {
    await call("POST", "/login", { token: byId("token").value });
    byId("token").value = "";
    await start();
  } catch (error) {
    show("login-error", error.message);
  }
});
byId("logout").addEventListener("click", async () => {
  await call("POST", "/logout");
  location.reload();
});
start();
