// Two charts of the last five minutes, drawn by uPlot in the colours of the page.

const SECONDS = 300;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const clock = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

function axes() {
  const line = { stroke: colour("--line"), width: 1 };
  const axis = { stroke: colour("--quiet"), grid: line, ticks: line };
  const times = (_, ticks) => ticks.map((tick) => clock.format(tick * 1000));
  return [{ ...axis, space: 80, size: 30, values: times }, { ...axis, size: 54, values: (_, ticks) => ticks.map((tick) => compact.format(tick)) }];
}

function chart(place, names) {
  const colours = ["--accent", "--second", "--third"];
  const series = names.map((name, at) => ({
    label: name,
    stroke: colour(colours[at]),
    width: 1.5,
    points: { show: false },
  }));
  const size = () => ({ width: place.clientWidth, height: place.clientHeight });
  const scales = { y: { range: (_, low, high) => [0, Math.max(high ?? 1, 1) * 1.1] } };
  const empty = [[], ...names.map(() => [])];
  const options = { ...size(), series: [{}, ...series], axes: axes(), scales, legend: { show: false }, cursor: { show: false } };
  const made = new uPlot(options, empty, place);
  new ResizeObserver(() => made.setSize(size())).observe(place);
  return made;
}

export class Charts {
  #samples = [];

  constructor(rates, latency) {
    rates.replaceChildren();
    latency.replaceChildren();
    this.rates = chart(rates, ["events", "matches", "deliveries"]);
    this.latency = chart(latency, ["p50", "p90", "p99"]);
  }

  /** Show the past, as the broker tells it when the page opens or comes back. */
  begin(samples) {
    this.#samples = samples;
    this.#draw();
  }

  add(sample) {
    this.#samples.push(sample);
    this.#samples.splice(0, this.#samples.length - SECONDS);
    if (!document.hidden) this.#draw();
  }

  #draw() {
    const column = (value) => this.#samples.map(value);
    const times = column((one) => one.time);
    this.rates.setData([times, column((one) => one.published), column((one) => one.matched), column((one) => one.delivered)]);
    this.latency.setData([times, ...[0, 1, 2].map((at) => column((one) => (one.latency ? one.latency[at] : null)))]);
  }
}
