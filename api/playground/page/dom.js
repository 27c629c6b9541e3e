// Making elements. All text goes through textContent: nothing that comes from a document or an answer is ever markup.

export const byId = (id) => document.getElementById(id);

/** An element: `properties` are attributes (`class`, `title`, ...); strings among `children` become text. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** Replace what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(...children);
  return element;
}

export const hidden = (text) => make("span", { class: "hidden" }, text);

export const number = (value) => value.toLocaleString("en");

export const seconds = (value) => (value < 0.1 ? `${(value * 1000).toFixed(value < 0.001 ? 1 : 0)} ms` : `${value.toFixed(2)} s`);

export const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
