// What makes elements. All text goes through here, as text: names and errors come from others.

const hidden = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;

// clean shows what would be invisible or turn the direction of writing.
export function clean(value) {
  return String(value).replace(hidden, (c) => "\\u" + c.codePointAt(0).toString(16).padStart(4, "0"));
}

// h returns an element. Attributes that are null or false are left out; on… are listeners.
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, clean(value));
  }
  return fill(element, children);
}

export function fill(element, children) {
  element.replaceChildren(...children.flat().filter((c) => c !== null && c !== undefined && c !== "")
    .map((c) => (c instanceof Node ? c : document.createTextNode(clean(c)))));
  return element;
}

// svg returns an element of a drawing.
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, clean(value));
  return fill(element, children);
}

// say changes a text only if it is another: what reads the page aloud would say it again.
export function say(element, text) {
  text = clean(text);
  if (element.textContent !== text) element.textContent = text;
}
