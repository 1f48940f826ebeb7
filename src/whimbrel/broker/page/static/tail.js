// The newest matched events, and the subscriptions that match most.

import { choosable, element } from "./broker.js";

const ROWS = 100;
const rate = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

export function summary(event) {
  return JSON.stringify(event.data ?? event);
}

export class Tail {
  #paused = false;

  constructor(chosen) {
    this.chosen = chosen;
    this.rows = document.querySelector("#tail tbody");
    const button = document.getElementById("pause");
    button.addEventListener("click", () => {
      this.#paused = !this.#paused;
      button.setAttribute("aria-pressed", String(this.#paused));
      button.textContent = this.#paused ? "Go on" : "Pause";
    });
  }

  add(events) {
    if (this.#paused) return;
    for (const one of events) {
      const row = document.createElement("tr");
      const text = one.event ? summary(one.event) : `(${one.size} bytes)`;
      const cell = document.createElement("td");
      cell.append(element("span", text, "clamp"));
      row.append(element("td", String(one.offset)), cell, element("td", String(one.matches)));
      row.title = one.subscriptions.length ? `matched ${one.subscriptions.join(", ")}${one.matches > one.subscriptions.length ? ", ..." : ""}` : "";
      if (one.event) choosable(row, () => this.chosen(one.event));
      this.rows.prepend(row);
    }
    while (this.rows.childElementCount > ROWS) this.rows.lastElementChild.remove();
    document.getElementById("no-tail").hidden = this.rows.childElementCount > 0;
  }

  busiest(subscriptions) {
    const most = Math.max(...subscriptions.map((one) => one.rate), 0.001);
    const items = subscriptions.map((one) => {
      const item = element("li", `${one.id}  ${rate.format(one.rate)}/s`);
      const bar = document.createElement("meter");
      bar.max = most;
      bar.value = one.rate;
      item.append(bar);
      return item;
    });
    document.getElementById("busiest").replaceChildren(...items);
  }
}
