// Type a filter and see what it means, how it would be indexed, and what it would have matched.

import { call, choosable, element, latest } from "./broker.js";
import { summary } from "./tail.js";

const PAUSE = 350; // milliseconds without a key before the broker is asked
const NAMES = 16;
const byId = (id) => document.getElementById(id);
const percent = new Intl.NumberFormat("en", { style: "percent", maximumSignificantDigits: 2 });

function names(value, prefix, found) {
  for (const [key, inner] of Object.entries(value)) {
    const name = prefix ? `${prefix}.${key}` : key;
    if (inner !== null && typeof inner === "object" && !Array.isArray(inner)) names(inner, name, found);
    else found.add(name);
  }
}

function constraint(one) {
  const seen = one.seen.length ? one.seen.map((value) => JSON.stringify(value)).join(", ") : "missing";
  const away = one.distance === null || one.distance === undefined ? "" : `, off by ${one.distance}`;
  const hint = one.hint ? `; ${one.hint}` : "";
  return element("li", `${one.constraint}   [${one.attribute}: ${seen}${away}${hint}]`, one.held ? "held" : "failed");
}

function shown(one) {
  const item = document.createElement("li");
  item.append(element("span", `${one.offset}  ${summary(one.event)}`, "clamp"));
  return item;
}

export class Playground {
  #asked = latest();
  #looked = latest();
  #tried = latest();
  #names = new Set();

  constructor() {
    this.filter = byId("filter");
    this.event = byId("event");
    this.filter.value = sessionStorage.getItem("filter") ?? "";
    const later = (work) => {
      let timer;
      return () => { clearTimeout(timer); timer = setTimeout(work, PAUSE); };
    };
    this.filter.addEventListener("input", later(() => this.ask()));
    this.event.addEventListener("input", later(() => this.explain()));
    if (this.filter.value) this.ask();
  }

  /** Offer the attributes of events that were seen. */
  saw(events) {
    const before = this.#names.size;
    for (const one of events) {
      if (one.event && this.#names.size < NAMES) names(one.event.data ?? {}, "data", this.#names);
    }
    if (this.#names.size === before) return;
    byId("suggestions").replaceChildren(...[...this.#names].slice(0, NAMES).map((name) => {
      const chip = element("button", name);
      chip.addEventListener("click", () => {
        const { selectionStart: at, value } = this.filter;
        this.filter.value = `${value.slice(0, at)}${name} ${value.slice(at)}`;
        this.filter.focus();
        this.ask();
      });
      return chip;
    }));
  }

  /** Bring an event into the editor and explain it. */
  bring(event) {
    this.event.value = JSON.stringify(event, null, 2);
    byId("playground").scrollIntoView({ behavior: "smooth" });
    this.explain();
  }

  async ask() {
    const text = this.filter.value.trim();
    sessionStorage.setItem("filter", text);
    if (!text) {
      byId("answers").hidden = byId("filter-error").hidden = true;
      byId("verdict").replaceChildren();
      return;
    }
    const body = { filter: text };
    try {
      const isNewest = await this.#asked(() => call("POST", "/subscriptions/validate", body), (found) => this.#validated(found));
      if (!isNewest) return;
      if (!byId("answers").hidden) {
        await this.#looked(() => call("POST", "/subscriptions/preview?limit=20&near=10", body), (found) => this.#previewed(found));
      }
    } catch (error) {
      this.#refuse(error.message);
    }
    await this.explain();
  }

  #refuse(message) {
    byId("filter-error").textContent = message;
    byId("filter-error").hidden = false;
    byId("answers").hidden = true;
  }

  #validated(found) {
    if (!found.valid) {
      this.#refuse(found.error.message);
      return;
    }
    byId("filter-error").hidden = true;
    byId("answers").hidden = false;
    byId("canonical").textContent = found.filter;
    const keys = (found.keys ?? []).map((one) => {
      const on = one.attributes.length ? ` on ${one.attributes.join(", ")}` : "";
      return element("li", `${one.key}${on}: ${percent.format(one.share)} of events reach it`);
    });
    byId("keys").replaceChildren(...(keys.length ? keys : [element("li", "nowhere: no event can match")]));
    const cost = found.cost ?? { nanoseconds: 0, candidates: 0 };
    byId("cost").textContent = `about ${cost.nanoseconds} ns, a candidate for ${percent.format(Math.min(1, cost.candidates))} of events`;
    byId("remarks").replaceChildren(...(found.remarks ?? []).map((one) => element("li", one.message)));
  }

  #previewed(found) {
    byId("match-count").textContent = `${found.matched} of the entries ${found.from} to ${found.until}`;
    const matches = found.messages.reverse().map((one) =>
      choosable(shown(one), () => this.bring(one.event)));
    byId("matches").replaceChildren(...(matches.length ? matches : [element("li", "None.", "quiet")]));
    const near = found.near.map((one) => {
      const item = choosable(shown(one), () => this.bring(one.event));
      const failed = document.createElement("ul");
      failed.append(...one.constraints.filter((inner) => !inner.held).map(constraint));
      item.append(failed);
      return item;
    });
    byId("near").replaceChildren(...(near.length ? near : [element("li", "None.", "quiet")]));
  }

  async explain() {
    const place = byId("verdict");
    const [filter, text] = [this.filter.value.trim(), this.event.value.trim()];
    if (!filter || !text || byId("answers").hidden) {
      place.replaceChildren();
      return;
    }
    let event;
    try {
      event = JSON.parse(text);
    } catch (error) {
      place.replaceChildren(element("p", `Expected an event as JSON: ${error.message}`, "error"));
      return;
    }
    try {
      await this.#tried(() => call("POST", "/subscriptions/explain", { filter, event }), (found) => {
        const parts = [element("p", found.matched ? "It matches." : "It does not match.")];
        for (const [at, one] of found.conjunctions.entries()) {
          if (found.conjunctions.length > 1) parts.push(element("span", `Alternative ${at + 1}`, "quiet"));
          const list = document.createElement("ul");
          list.append(...one.constraints.map(constraint));
          if (one.coupled) list.append(element("li", "each holds alone, but not all together", "failed"));
          parts.push(list);
        }
        for (const hint of found.hints ?? []) parts.push(element("p", hint, "quiet"));
        place.replaceChildren(...parts);
      });
    } catch (error) {
      place.replaceChildren(element("p", error.message, "error"));
    }
  }
}
