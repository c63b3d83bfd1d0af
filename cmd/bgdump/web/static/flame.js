// The flame graph, outermost calls at the top. It is one stop of the Tab key: arrows
// move between frames, Enter zooms in, Escape or Backspace out.

import { h, sync, setText, setAttribute, setClass, named } from './dom.js';
import { duration, count, bytes, percent, plural } from './format.js';
import { tipOn, hideTip } from './hist.js';
import { ask } from './feed.js';

const metrics = [['cpu', 'CPU'], ['wait', 'Wait'], ['ready', 'Ready'], ['count', 'Waits'], ['heap', 'Heap']];
const rowHeight = 22;
const thinnest = 2; // px; what is narrower is not drawn

export class Flame {
  constructor(app) {
    this.app = app;
    this.zoomed = []; // names from the outermost to the frame that fills the width
    this.current = '';
    this.search = h('input', { type: 'search', placeholder: 'Search functions', 'aria-label': 'Search functions in the flame graph', onInput: () => this.draw() });
    this.search.addEventListener('keydown', e => {
      if (e.key !== 'Escape' || !this.search.value) return;
      e.stopPropagation();
      this.search.value = '';
      this.draw();
    });
    this.found = h('output', { class: 'found' });
    this.crumbs = h('nav', { class: 'crumbs', 'aria-label': 'Zoomed in to' });
    this.picker = h('div', { class: 'choice', role: 'radiogroup', 'aria-label': 'What the width of a frame shows' },
      ...metrics.map(([id, text]) => h('label', {}, h('input', { type: 'radio', name: 'metric', value: id, onChange: () => app.setMetric(id) }), h('span', {}, text))));
    this.frames = h('div', { class: 'frames', role: 'tree', 'aria-label': 'Flame graph' });
    this.frames.addEventListener('keydown', e => this.keydown(e));
    this.none = h('p', { class: 'none' });
    this.element = h('div', { class: 'flame' }, h('div', { class: 'bar' }, this.picker, this.search, this.found), this.crumbs, this.frames, this.none);
    new ResizeObserver(() => this.draw()).observe(this.frames);
  }

  async update() {
    const { app } = this, state = app.graph.state;
    const wanted = JSON.stringify([app.params, app.metric, state.era, state.at, state.base]);
    if (wanted === this.wanted) return;
    this.wanted = wanted;
    for (const input of this.picker.querySelectorAll('input')) input.checked = input.value === app.metric;
    try {
      const tree = await ask('flame', { ...app.params, at: state.at, metric: app.metric });
      if (this.wanted !== wanted) return;
      this.tree = tree;
      this.draw();
    } catch {
      this.wanted = '';
    }
  }

  write(v) {
    if (this.tree.unit === 'ns') return duration(v);
    return this.tree.unit === 'bytes' ? bytes(v) : count(v);
  }

  draw() {
    if (!this.tree) return;
    const width = this.frames.clientWidth;
    const { names, root } = this.tree;
    if (!width) return;
    this.total = root[1];
    const path = this.findZoomed();
    const text = this.search.value.trim().toLowerCase();
    const hit = name => text !== '' && names[name].toLowerCase().includes(text);
    const drawn = [];
    let depth = 0;
    // Those around the zoomed frame are as wide as it is.
    path.slice(0, -1).forEach((f, level) => drawn.push({ frame: f, path: path.slice(0, level + 1), x: 0, w: width, level, around: true }));
    const zoomed = path[path.length - 1];
    const add = (frame, above, x, level) => {
      const w = width * frame[1] / zoomed[1];
      if (w < thinnest) return;
      const own = [...above, frame];
      drawn.push({ frame, path: own, x, w, level });
      depth = Math.max(depth, level);
      for (let i = 2, at = x; i < frame.length; i++) {
        add(frame[i], own, at, level + 1);
        at += width * frame[i][1] / zoomed[1];
      }
    };
    if (zoomed[1] > 0) add(zoomed, path.slice(0, -1), 0, path.length - 1);
    for (const d of drawn) {
      d.id = this.idOf(d.path);
      d.hit = hit(d.frame[0]);
    }
    this.drawn = new Map(drawn.map(d => [d.id, d]));
    if (!this.drawn.has(this.current)) this.current = this.idOf(path);
    sync(this.frames, drawn, d => d.id, d => this.make(d), (e, d) => this.place(e, d));
    this.frames.style.height = `${(Math.max(depth, path.length - 1) + 1) * rowHeight}px`;
    this.none.hidden = this.total > 0;
    setText(this.none, this.total > 0 ? '' : 'Nothing was measured in this period.');
    this.showFound(text, hit, zoomed);
    this.drawCrumbs(path);
  }

  // idOf tells a frame by the names on its path: their numbers are others in the next answer.
  idOf(path) {
    return path.map(f => this.tree.names[f[0]]).join(';');
  }

  findZoomed() {
    const path = [this.tree.root];
    for (const name of this.zoomed) {
      const next = path[path.length - 1].slice(2).find(c => this.tree.names[c[0]] === name);
      if (!next) break;
      path.push(next);
    }
    return path;
  }

  make() {
    const e = h('div', { role: 'treeitem', onClick: () => this.zoomTo(e.drawn), onFocus: () => this.setCurrent(e.drawn.id) }, h('bdi'));
    tipOn(e, () => [
      h('header', {}, named(this.tree.names[e.drawn.frame[0]])),
      h('p', {}, `${this.write(e.drawn.frame[1])} · ${percent(e.drawn.frame[1] / this.total)} of all`),
      h('p', { class: 'muted' }, `itself ${this.write(this.own(e.drawn.frame))}, ${plural(e.drawn.frame.length - 2, 'call')} further in`),
    ]);
    return e;
  }

  own(frame) {
    let own = frame[1];
    for (let i = 2; i < frame.length; i++) own -= frame[i][1];
    return Math.max(own, 0);
  }

  place(e, d) {
    e.drawn = d;
    const name = this.tree.names[d.frame[0]];
    setText(e.firstChild, d.w > 24 ? name : '');
    setClass(e, `frame hue-${hue(name)}${d.around ? ' around' : ''}${d.hit ? ' hit' : ''}`);
    setAttribute(e, 'aria-level', d.level + 1);
    setAttribute(e, 'aria-label', `${name}: ${this.write(d.frame[1])}, ${percent(d.frame[1] / this.total)}`);
    e.style.transform = `translate(${d.x.toFixed(1)}px, ${d.level * rowHeight}px)`;
    e.style.width = `${Math.max(d.w - 1, 1).toFixed(1)}px`;
    e.tabIndex = d.id === this.current ? 0 : -1;
  }

  showFound(text, hit, zoomed) {
    if (!text) return setText(this.found, '');
    let sum = 0, frames = 0;
    const walk = frame => {
      if (hit(frame[0])) {
        sum += frame[1];
        frames++;
        return; // what is inside counts already
      }
      for (let i = 2; i < frame.length; i++) walk(frame[i]);
    };
    walk(zoomed);
    setText(this.found, frames ? `${percent(sum / zoomed[1])} in ${plural(frames, 'place')}` : 'not found');
  }

  drawCrumbs(path) {
    this.crumbs.hidden = path.length < 2;
    const key = this.idOf(path);
    if (this.crumbsFor === key) return;
    this.crumbsFor = key;
    this.crumbs.replaceChildren(h('button', { type: 'button', onClick: () => this.zoomOut(0) }, 'Show all'),
      named(this.tree.names[path[path.length - 1][0]]));
  }

  zoomTo(d) {
    hideTip();
    this.zoomed = d.path.slice(1).map(f => this.tree.names[f[0]]);
    this.current = d.id;
    this.draw();
    this.focusCurrent();
  }

  // zoomOut goes to a number of levels below the root.
  zoomOut(levels) {
    if (levels < 0 || this.zoomed.length <= levels) return false;
    this.zoomed = this.zoomed.slice(0, levels);
    this.draw();
    this.focusCurrent();
    return true;
  }

  setCurrent(id) {
    this.current = id;
    for (const e of this.frames.children) e.tabIndex = e.syncKey === id ? 0 : -1;
  }

  focusCurrent() {
    for (const e of this.frames.children) if (e.syncKey === this.current) e.focus();
  }

  keydown(e) {
    if (e.altKey || e.ctrlKey || e.metaKey) return;
    const d = this.drawn.get(this.current);
    if (!d) return;
    let to;
    if (e.key === 'Enter' || e.key === ' ') this.zoomTo(d);
    else if (e.key === 'Escape' || e.key === 'Backspace') {
      if (!this.zoomOut(this.zoomed.length - 1)) return;
    } else if (e.key === 'Home') to = [...this.drawn.keys()][0];
    else if (e.key === 'ArrowUp') to = this.idOf(d.path.slice(0, -1));
    else if (e.key === 'ArrowDown') to = [...this.drawn.values()].find(o => o.level === d.level + 1 && o.path[d.level] === d.frame)?.id;
    else if (e.key === 'ArrowLeft' || e.key === 'ArrowRight') {
      const row = [...this.drawn.values()].filter(o => o.level === d.level).sort((a, b) => a.x - b.x);
      to = row[row.indexOf(d) + (e.key === 'ArrowLeft' ? -1 : 1)]?.id;
    } else return;
    e.preventDefault();
    e.stopPropagation();
    if (to !== undefined && this.drawn.has(to)) {
      this.current = to;
      this.focusCurrent();
    }
  }
}

// hue gives functions of a package the same colour. The steps at the end, and all, have
// none of their own.
function hue(name) {
  if (name === 'all' || name.startsWith('→')) return 'none';
  const pkg = name.split('.')[0].split(' ').pop();
  let sum = 0;
  for (let i = 0; i < pkg.length; i++) sum = (sum * 31 + pkg.charCodeAt(i)) >>> 0;
  return sum % 8;
}
