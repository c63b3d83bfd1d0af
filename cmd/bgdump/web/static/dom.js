// Making and updating elements. Text only ever gets into the page as text: nothing here
// or elsewhere parses HTML, as names come from dumps that anybody may have written.

const svgSpace = 'http://www.w3.org/2000/svg';

export const $ = id => document.getElementById(id);

// h makes an element. Props that are functions become listeners (onClick: click), those
// that start with "aria-" or "data-", and role, become attributes, the others properties.
export function h(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null) continue;
    if (typeof value === 'function') e.addEventListener(name.slice(2).toLowerCase(), value);
    else if (name.includes('-') || name === 'role' || name === 'for' || name === 'scope') e.setAttribute(name, value);
    else if (name === 'class') e.className = value;
    else e[name] = value;
  }
  e.append(...children.flat().filter(c => c !== null && c !== undefined && c !== false));
  return e;
}

export function s(tag, attributes, ...children) {
  const e = document.createElementNS(svgSpace, tag);
  for (const [name, value] of Object.entries(attributes || {})) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

// setText and setAttribute touch the document only if something changes.
export function setText(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

export function setAttribute(e, name, value) {
  if (value === null || value === undefined) {
    if (e.hasAttribute(name)) e.removeAttribute(name);
  } else if (e.getAttribute(name) !== String(value)) {
    e.setAttribute(name, value);
  }
}

export function setClass(e, name) {
  if (e.getAttribute('class') !== name) e.setAttribute('class', name);
}

// A name is shown apart from the direction of the text around it.
export function named(text, className) {
  return h('bdi', { class: className, title: text }, text);
}

// sync makes the children of parent stand for items, in their order: an element is made
// for a new key and kept, with its focus, as long as its key is there.
export function sync(parent, items, keyOf, make, update) {
  const known = parent.synced || (parent.synced = new Map());
  const wanted = new Map();
  let before = parent.firstChild;
  const skip = () => {
    while (before && !before.syncKey) before = before.nextSibling;
  };
  for (const item of items) wanted.set(keyOf(item), item);
  for (const [key, e] of known) {
    if (!wanted.has(key)) {
      if (e === before) before = e.nextSibling;
      e.remove();
      known.delete(key);
    }
  }
  for (const [key, item] of wanted) {
    let e = known.get(key);
    if (!e) {
      e = make(item);
      e.syncKey = key;
      known.set(key, e);
    }
    update(e, item);
    skip();
    if (e === before) before = before.nextSibling;
    else place(parent, e, before);
  }
}

// place puts e before another child; moving the element that has the focus would lose
// it, so the focus is given back.
function place(parent, e, before) {
  const focused = e.contains(document.activeElement) ? document.activeElement : null;
  parent.insertBefore(e, before);
  if (focused && document.activeElement !== focused) focused.focus({ preventScroll: true });
}

// renew gives e other children, and reports whether it did: not while somebody has text selected
// there. What has a data-ref keeps the focus, and how far it was scrolled aside.
export function renew(e, parts) {
  const selection = getSelection();
  if (!selection.isCollapsed && e.contains(selection.anchorNode)) return false;
  const focused = e.contains(document.activeElement) ? document.activeElement.dataset.ref : null;
  const aside = new Map([...e.querySelectorAll('.scroll, pre')].map(x => [x.dataset.ref, x.scrollLeft]));
  e.replaceChildren(...parts);
  for (const x of e.querySelectorAll('[data-ref]')) {
    if (aside.get(x.dataset.ref)) x.scrollLeft = aside.get(x.dataset.ref);
    if (x.dataset.ref === focused) x.focus({ preventScroll: true });
  }
  return true;
}

// folding makes a part that can be folded; open holds the ids of those that are not.
export function folding(open, id, summary, ...content) {
  return h('details', { open: open.has(id), onToggle: e => open[e.target.open ? 'add' : 'delete'](id) }, summary, ...content);
}

export const stillness = matchMedia('(prefers-reduced-motion: reduce)');
