// Requests to the broker. The cookie of a session goes along by itself.

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.message);
    this.status = status;
    this.problem = problem;
  }
}

export async function call(method, path, body) {
  const options = { method, headers: { accept: "application/json" } };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["content-type"] = "application/json";
  }
  const response = await fetch(path, options);
  const text = await response.text();
  const content = text ? JSON.parse(text) : null;
  if (!response.ok) {
    throw new Refused(response.status, (content && content.error) || { message: response.statusText });
  }
  return content;
}

/** Only the newest of several requests counts: what came of one that was overtaken is dropped. Says whether it was shown. */
export function latest() {
  let newest = 0;
  return async (work, show) => {
    const mine = ++newest;
    try {
      const result = await work();
      if (mine === newest) show(result);
    } catch (error) {
      if (mine === newest) throw error;
    }
    return mine === newest;
  };
}

/** An element with a class and a text; texts are never read as HTML. */
export function element(name, text = "", kind = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

/** Call `chosen` when an element is clicked, or Enter is pressed on it. */
export function choosable(one, chosen) {
  one.tabIndex = 0;
  one.addEventListener("click", chosen);
  one.addEventListener("keydown", (event) => { if (event.key === "Enter") chosen(); });
  return one;
}
