// The graph. Where nodes and edges go is decided by the server (api/layout); they stay
// there while the set of nodes and edges is the same. What changes every second is the
// size of nodes (tasks waiting), the width of edges (traffic) and the colour.
//
// The graph is one stop of the Tab key. Arrows go to the next node in that direction, e
// and Shift+e along the edges of a node, Enter opens the details, + − 0 zoom, Shift and arrows
// move what is seen.

import { h, s, sync, setText, setAttribute, setClass } from './dom.js';
import { count, rate, plural, duration, words } from './format.js';
import { tipOn, hideTip } from './hist.js';
import { nodeTip, edgeTip, nodeHeat, edgeHeat, heatScale } from './tips.js';
import { ask } from './feed.js';
import { marks, numbers, isStep } from './marks.js';
import { Wakes } from './wakes.js';
import { fold, toward } from './drawn.js';
import { View } from './pan.js';

const patience = 5000; // ms between two arrangements, if nodes or edges have come or gone
const endurance = 30000; // if only sizes do not fit any more
const reach = 14; // px from a box, where a click is one on it
const crowded = 80; // edges from which on labels appear with the pointer only

// nameSize is how large the name of a box can be if nothing else is in it: a long one is broken into lines.
function nameSize(d) {
  const n = (d.lines.find(l => l[2]) || d.lines[0] || [''])[0].length || 1;
  return Math.min(0.8 * Math.sqrt(d.w * d.h / n), d.h * 0.6, n < 9 ? (d.w - 8) / (0.75 * n) : Infinity);
}

function middleOf(path) {
  return path.getPointAtLength(path.getTotalLength() / 2);
}

// toBox moves a point at the upper or lower border of a box to where the border is at the size of
// now: up or down, and aside only if it would be beside the box.
function toBox(box, [, x, y]) {
  const middle = box.x + box.w / 2, half = box.w * box.scale / 2 - 8;
  const dx = Math.min(Math.max(x, middle - half), middle + half) - x, dy = (y - box.y - box.h / 2) * (box.scale - 1);
  return { at: `${(Number(x) + dx).toFixed(1)} ${(Number(y) + dy).toFixed(1)}`, by: `${dx.toFixed(1)} ${dy.toFixed(1)}` };
}

const step = 0.25; // of the viewport, moved at a time
const moves = [['ArrowUp', '↑', 'up', 0, -step], ['ArrowLeft', '←', 'left', -step, 0], ['ArrowDown', '↓', 'down', 0, step], ['ArrowRight', '→', 'right', step, 0]];

export class Graph {
  constructor(app) {
    this.app = app;
    this.layout = null;
    this.wanted = '';
    this.arranged = 0;
    this.current = null; // what has the Tab stop: "n" or "e" and an id
    this.lines = s('g');
    this.labels = s('g', { class: 'labels' });
    this.badges = s('g', { class: 'badges', 'aria-hidden': 'true' });
    this.wakes = new Wakes();
    this.svg = s('svg', { class: 'edges' }, this.lines, this.labels, this.wakes.element, this.badges);
    this.cards = h('div', { class: 'cards' });
    this.stage = h('div', { class: 'stage' }, this.svg, this.cards);
    this.viewport = h('div', { class: 'viewport', role: 'group', 'aria-label': 'Blocking graph. Arrow keys move between nodes, e follows edges, Enter opens details.' }, this.stage);
    this.left = h('p', { class: 'left-out', hidden: true });
    this.legend = h('div', { class: 'legend' });
    const button = (text, label, act) => h('button', { type: 'button', 'aria-label': label, title: label, onClick: act }, text);
    this.next = button('⚑', 'Show the next finding (n)', () => this.app.nextFinding());
    this.tools = h('div', { class: 'zoom', role: 'group', 'aria-label': 'Zoom' }, this.next,
      button('+', 'Zoom in (+)', () => this.view.zoom(1.25)), button('−', 'Zoom out (−)', () => this.view.zoom(0.8)),
      button('⤢', 'Fit the graph into the window (0)', () => this.view.fit()), button('↻', 'Arrange anew (r)', () => this.arrange(true)));
    this.pad = h('div', { class: 'pad', role: 'group', 'aria-label': 'Move what is seen' }, ...moves.map(([key, sign, name, x, y]) =>
      button(sign, `Move ${name} (Shift and ${sign})`, () => this.view.pan(x, y))));
    this.none = h('p', { class: 'none', hidden: true }, 'No node to draw. Is the filter too narrow?');
    this.element = h('div', { class: 'graph' }, h('div', { class: 'picture' }, this.viewport, this.tools, this.pad, this.none), h('div', { class: 'foot' }, this.legend, this.left));
    this.view = new View(this.viewport, this.stage, () => this.bounds(), () => this.app.panel.element);
    this.wanting = app.sel; // what is brought into view when it is drawn
    this.viewport.addEventListener('keydown', e => this.keydown(e));
    this.viewport.addEventListener('click', e => this.clickBeside(e));
  }

  // clickBeside lets a click between boxes count for the nearest one, if that is near: where the graph is small, a box is narrower
  // than a finger.
  clickBeside(e) {
    if (e.target.closest('.node, .edge, .minimap')) return;
    const away = card => {
      const box = card.getBoundingClientRect();
      return Math.hypot(Math.max(box.left - e.clientX, e.clientX - box.right, 0), Math.max(box.top - e.clientY, e.clientY - box.bottom, 0));
    };
    const [nearest] = [...this.cards.children].sort((a, b) => away(a) - away(b));
    if (nearest && away(nearest) <= reach) nearest.click();
  }

  bounds() {
    if (!this.layout?.nodes.length) return null;
    const text = Math.min(...this.layout.nodes.flatMap(d => d.lines.map(([, size]) => size)));
    return { right: this.layout.width, bottom: this.layout.height, text, boxes: this.folded?.nodes || this.layout.nodes, heat: d => (d.node && this.heats ? nodeHeat(d.node, this.heats) : 0) };
  }

  // arrange fetches the layout if nodes or edges have come or gone, or if it is asked for.
  async arrange(force) {
    const { app } = this, { state } = app.graph;
    const wish = JSON.stringify([app.params.focus, app.params.ignore, app.show.graph]), asked = `${state.era} ${wish}`;
    const shape = `${asked} ${state.shape}`;
    const missing = this.missing(), lacks = missing && missing !== this.lacked;
    if (!force && shape === this.wanted && !this.outgrown && !lacks) return;
    const changed = force || asked !== this.asked;
    const since = Date.now() - this.arranged;
    if (!changed && (since < (shape === this.wanted && !lacks ? endurance : patience) || this.busy())) return;
    const another = force || wish !== this.wish; // and not the same of the next trace, or after a restart
    this.wanted = shape;
    [this.asked, this.wish] = [asked, wish];
    this.arranged = Date.now();
    this.lacked = missing;
    this.outgrown = false;
    try {
      const layout = await ask('layout', { ...app.params, n: app.show.graph });
      if (this.wanted !== shape) return;
      if (!changed && this.busy()) { // by now
        this.wanted = '';
        return;
      }
      this.layout = layout;
      this.draw();
      if (another && !this.wanting || !this.view.touched) this.view.fit();
      this.showWanted();
    } catch {
      this.wanted = this.asked = this.wish = ''; // tried again with the next answer, whatever somebody does in the graph
    }
  }

  // missing are the ids of what findings name and is not drawn: they may be others than when it was arranged.
  missing() {
    if (!this.folded) return '';
    return marks(this.app.graph).filter(m => !this.byId.has(m.from) || m.to && !this.byEdge.has(`${m.from}-${m.to}`)).map(m => `${m.from}-${m.to}`).join();
  }

  // busy says that somebody is at work in the graph, which should not move then.
  busy() {
    return Boolean(this.layout) && (this.viewport.matches(':hover') || this.viewport.contains(document.activeElement));
  }

  // show brings a node or an edge into view, when it is drawn at the latest.
  show(sel) {
    this.wanting = sel;
    if (!this.showWanted() && this.layout) this.arrange(true);
  }

  // showWanted reports whether what is wanted is drawn.
  showWanted() {
    const sel = this.wanting;
    if (!sel || !this.folded) return false;
    const ends = (sel.node ? [sel.node] : sel.edge.split('-')).map(key => this.byId.get(this.folded.idOf(key)));
    if (ends.includes(undefined)) return false;
    this.wanting = null;
    const left = Math.min(...ends.map(d => d.x)), top = Math.min(...ends.map(d => d.y));
    this.view.show({ x: left, y: top, w: Math.max(...ends.map(d => d.x + d.w)) - left, h: Math.max(...ends.map(d => d.y + d.h)) - top });
    return true;
  }

  update() {
    this.arrange(false);
    this.draw();
  }

  draw() {
    if (!this.layout) return;
    const { app } = this;
    this.folded = fold(this.layout, app.graph);
    this.heats = heatScale(app.graph, app.color);
    this.marks = marks(app.graph);
    this.next.hidden = !this.marks.some(m => m.from);
    this.element.classList.toggle('by-wait', app.color === 'wait');
    const { nodes, edges } = this.folded;
    this.byId = new Map(nodes.map(d => [d.id, d]));
    this.byEdge = new Map(edges.map(d => [d.id, d]));
    if (!this.current || !this.exists(this.current)) this.current = nodes.length ? `n${this.first(nodes).id}` : null;
    this.resize(nodes);
    sync(this.cards, nodes, d => d.id, d => this.card(d), (e, d) => this.updateCard(e, d));
    setAttribute(this.svg, 'viewBox', `0 0 ${this.layout.width} ${this.layout.height}`);
    setAttribute(this.svg, 'width', this.layout.width);
    setAttribute(this.svg, 'height', this.layout.height);
    sync(this.lines, edges, d => d.id, d => this.line(d), (g, d) => this.updateLine(g, d));
    this.drawLabels(edges);
    this.drawBadges(edges);
    this.wakes.draw(app.wakes ? nodes : [], this.byId);
    this.light();
    const others = this.layout.nodes.some(n => n.id === 0), left = this.layout.hidden;
    this.left.hidden = !others && !left;
    setText(this.left, others ? `${plural(this.folded.others, 'node')} drawn as one: raise “Show”, or filter.` : left ? `${plural(left, this.layout.rare ? 'rare edge' : 'edge')}${this.layout.rare ? `, and ${plural(this.layout.rare, 'node')} that no other edge joins,` : ''} not drawn.` : '');
    this.none.hidden = nodes.length > 0;
    this.drawLegend();
  }

  // resize lets the boxes follow the number of tasks, within the room that they have. If
  // that is too small or too large by now, the graph is arranged anew.
  resize(nodes) {
    const most = Math.max(1, ...nodes.map(d => d.node.now)), then = Math.max(1, ...nodes.map(d => d.now || 0));
    const size = (now, of) => 1 + 0.6 * Math.sqrt(now / of);
    for (const d of nodes) {
      const wanted = size(d.node.now, most) / size(d.now || 0, then);
      d.scale = Math.min(Math.max(wanted, 0.85), 1.3); // or lines would end beside the boxes
      if (d.scale !== wanted && this.app.graph.state.live) this.outgrown = true;
    }
  }

  first(nodes) {
    return nodes.reduce((a, b) => (b.node.now > a.node.now ? b : a));
  }

  exists(ref) {
    return ref[0] === 'n' ? this.byId.has(Number(ref.slice(1))) : this.byEdge.has(ref.slice(1));
  }

  card(d) {
    const open = () => (card.drawn.id ? this.app.select({ node: card.drawn.node.key }) : this.app.showTab('nodes'));
    const card = h('button', { type: 'button', onClick: open, onFocus: () => this.setCurrent(`n${d.id}`) });
    tipOn(card, () => card.drawn.id !== 0 && nodeTip(card.drawn.node, this.app.graph));
    card.addEventListener('pointerenter', () => this.light(card.drawn.id));
    card.addEventListener('pointerleave', () => this.light());
    card.addEventListener('focus', () => {
      if (!card.matches(':focus-visible')) return; // under a mouse button it must not move: that would be no click
      this.view.reveal(card.drawn);
      this.light(card.drawn.id);
    });
    card.addEventListener('blur', () => this.light());
    return card;
  }

  updateCard(e, d) {
    e.drawn = d;
    const { node } = d, { app } = this;
    const lines = JSON.stringify(d.lines);
    if (e.lines !== lines) {
      e.lines = lines;
      e.replaceChildren(...d.lines.map(([text, size, bold]) => {
        const line = h(bold ? 'strong' : 'span', {}, h('bdi', {}, text));
        line.style.fontSize = `${size}px`;
        return line;
      }));
      e.style.width = `${d.w}px`;
      e.style.height = `${d.h}px`;
    }
    const end = node.key === '0000000000000001' || node.key === '0000000000000002';
    const figures = end ? `${rate(node.inRate || node.edgesOut.reduce((sum, x) => sum + x.rate, 0))}/s` : plural(node.now, words(app.graph).task) + (node.wait.mean ? ` · ${duration(node.wait.mean)}` : '');
    if (e.lastChild) setText(e.lastChild.firstChild, figures);
    const selected = app.sel?.node === node.key;
    setClass(e, `node heat-${d.id ? nodeHeat(node, this.heats) : 0}${node.idle ? ' idle' : ''}${end ? ' end' : ''}${selected ? ' selected' : ''}`);
    const found = d.id ? this.marks.filter(m => m.from === d.id && !isStep(m)) : [];
    if (found.length) e.classList.add(`marked-${found[0].severity}`);
    setAttribute(e, 'data-mark', found.length ? numbers(found) : null);
    e.style.setProperty('--name', `${nameSize(d).toFixed(1)}px`);
    setAttribute(e, 'data-key', node.key);
    setAttribute(e, 'aria-pressed', d.id ? String(selected) : null);
    // The name is the text of the box, so that it can be asked for by what is seen; the rest describes it.
    setAttribute(e, 'aria-description', d.id ? `${node.name}: ${plural(node.now, words(app.graph).task)} waiting, ${rate(node.inRate)} arrivals per second${found.length ? `; finding ${numbers(found)}` : ''}` : `${plural(this.folded.others, 'node')} that are not drawn: see the table`);
    const transform = `translate(${d.x}px, ${d.y}px) scale(${d.scale.toFixed(3)})`;
    if (e.style.transform !== transform) e.style.transform = transform;
    e.tabIndex = this.current === `n${d.id}` ? 0 : -1;
  }

  // drawBadges colours the steps that findings name, and puts the number beside those that a finding is about.
  drawBadges(edges) {
    const found = edges.map(d => ({ d, marks: this.marks.filter(m => m.to && m.from === d.from && m.to === d.to) })).filter(x => x.marks.length);
    sync(this.badges, found, x => x.d.id, () => s('g', {}, s('circle', { r: 11 }), s('text', { 'text-anchor': 'middle', y: 4 })), (g, { d, marks }) => {
      const ofStep = e => e.drawn.id === d.id, line = [...this.lines.children].find(ofStep), label = [...this.labels.children].find(ofStep);
      const { x, y } = label ? { x: label.firstChild.getAttribute('x') - 12, y: d.label[1] } : middleOf(line.children[1]);
      const steps = marks.filter(isStep);
      line.classList.add(`marked-${marks[0].severity}`);
      setClass(g, `marked-${marks[0].severity}`);
      setAttribute(g, 'transform', `translate(${Number(x).toFixed(1)} ${Number(y).toFixed(1)})`);
      setAttribute(g, 'visibility', steps.length ? null : 'hidden');
      setText(g.lastChild, numbers(steps));
    });
  }

  drawLabels(edges) {
    const labelled = edges.filter(d => d.label && d.edge);
    this.labels.classList.toggle('crowded', edges.length > crowded);
    sync(this.labels, labelled, d => d.id, () => s('g', {}, s('rect', { height: 15, rx: 4 }), s('text', { 'text-anchor': 'middle' })), (g, d) => {
      g.drawn = d;
      const [ground, text] = g.children;
      const [x, y] = d.label, words = `${rate(d.edge.rate)}/s${d.edge.cpu.mean ? ` · ${duration(d.edge.cpu.mean)}` : ''}`;
      const width = words.length * 6 + 6;
      setAttribute(ground, 'x', (x - width / 2).toFixed(1));
      setAttribute(ground, 'y', y - 7.5);
      setAttribute(ground, 'width', width.toFixed(1));
      setAttribute(text, 'x', x);
      setAttribute(text, 'y', y + 3.6);
      setText(text, words);
    });
  }

  line() {
    const g = s('g', { role: 'button', tabindex: -1 }, s('path', { class: 'hit' }), s('path', { class: 'line' }), s('path', { class: 'arrow' }));
    const edge = () => g.drawn.edge?.id && g.drawn.edge;
    g.addEventListener('click', () => edge() && this.app.select({ edge: edge().id }));
    g.addEventListener('focus', () => edge() && this.setCurrent(`e${g.drawn.id}`));
    tipOn(g, () => edge() && edgeTip(edge(), this.app.graph));
    return g;
  }

  updateLine(g, d) {
    const { edge } = d, { app } = this;
    g.drawn = d;
    const selected = edge?.id && app.sel?.edge === edge.id;
    const [hit, line, arrow] = g.children;
    setAttribute(hit, 'd', d.path);
    const from = this.byId.get(d.from), to = this.byId.get(d.to);
    if (from === to) {
      // A loop leaves the box at its right side, which moves with the size of the box.
      setAttribute(g, 'transform', `translate(${(from.w * (from.scale - 1) / 2).toFixed(1)} 0)`);
      setAttribute(line, 'd', d.path);
    } else {
      const start = toBox(from, /^M(\S+) ([^A-Z]+)/.exec(d.path)), end = toBox(to, /^M(\S+) ([^A-Z]+)/.exec(d.arrow));
      setAttribute(line, 'd', `M${start.at}L${d.path.slice(1)}l${end.by}`);
      setAttribute(arrow, 'transform', `translate(${end.by})`);
    }
    setAttribute(arrow, 'd', d.arrow);
    setAttribute(line, 'stroke-width', d.width.toFixed(1));
    setClass(g, `edge heat-${edge ? edgeHeat(edge, app.graph, this.heats) : 0}${edge ? (edge.id ? '' : ' to-others') : ' idle'}${selected ? ' selected' : ''}`);
    setAttribute(g, 'tabindex', edge && this.current === `e${d.id}` ? 0 : -1);
    setAttribute(g, 'aria-hidden', edge ? null : 'true');
    setAttribute(g, 'data-edge', edge?.id);
    setAttribute(g, 'aria-label', edge ? `Step ${edge.name}: ${rate(edge.rate)} per second, ${duration(edge.cpu.mean)} of CPU each` : null);
  }

  // light brings forward the node under the pointer, or what is selected, and its edges.
  light(id) {
    const sel = this.app.sel;
    const node = id ?? (sel?.node && this.folded?.idOf(sel.node)), edge = id === undefined ? sel?.edge : undefined;
    const on = d => (node !== undefined && node !== null ? d.from === node || d.to === node : Boolean(edge) && d.edge?.id === edge);
    const near = new Set(node !== undefined && node !== null ? [node] : []);
    let any = near.size > 0;
    for (const g of this.lines.children) {
      const lit = on(g.drawn);
      any ||= lit;
      g.classList.toggle('on', lit);
      if (lit) near.add(g.drawn.from).add(g.drawn.to);
    }
    for (const t of this.labels.children) t.classList.toggle('on', on(t.drawn));
    for (const card of this.cards.children) card.classList.toggle('on', near.has(card.drawn.id));
    this.viewport.classList.toggle('lit', any);
  }

  setCurrent(ref) {
    this.current = ref;
    for (const card of this.cards.children) card.tabIndex = ref === `n${card.drawn.id}` ? 0 : -1;
    for (const g of this.lines.children) setAttribute(g, 'tabindex', g.drawn.edge && ref === `e${g.drawn.id}` ? 0 : -1);
  }

  keydown(e) {
    if (e.altKey || e.ctrlKey || e.metaKey) return;
    const done = this.pan(e) || this.move(e) || this.scale(e);
    if (done) {
      e.preventDefault();
      e.stopPropagation();
    }
  }

  pan(e) {
    const move = e.shiftKey && moves.find(([key]) => key === e.key);
    if (move) this.view.pan(move[3], move[4]);
    return Boolean(move);
  }

  scale(e) {
    const act = { '+': () => this.view.zoom(1.25), '=': () => this.view.zoom(1.25), '-': () => this.view.zoom(0.8), 0: () => this.view.fit(), r: () => this.arrange(true) }[e.key];
    act?.();
    return Boolean(act);
  }

  move(e) {
    const line = e.target.closest('.edge')?.drawn, card = e.target.closest('.node')?.drawn;
    if (line && (e.key === 'Enter' || e.key === ' ')) {
      if (line.edge?.id) this.app.select({ edge: line.edge.id });
      return true;
    }
    if (e.key === 'e' || e.key === 'E') {
      this.follow(card, line, e.key === 'E');
      return true;
    }
    const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
    if (!direction || !card && !line) return false;
    // From an edge, up and left lead to where it begins, down and right to where it ends.
    const next = line ? (e.key === 'ArrowUp' || e.key === 'ArrowLeft' ? line.from : line.to) : toward(this.byId, card.id, direction);
    for (const other of this.cards.children) if (other.drawn.id === next) other.focus();
    return true;
  }

  // follow goes to the first edge of a node, or from an edge to the next of that node.
  follow(card, line, back) {
    if (card) this.home = card.id;
    const around = [...this.lines.children].filter(g => g.drawn.edge && (g.drawn.from === this.home || g.drawn.to === this.home));
    if (!around.length) return;
    const at = line ? around.findIndex(g => g.drawn.id === line.id) : back ? 0 : -1;
    hideTip();
    around[(at + (back ? -1 : 1) + around.length) % around.length].focus();
  }

  // goTo gives the focus to the node with a key, if it is drawn.
  goTo(key) {
    for (const card of this.cards.children) if (card.drawn.node.key === key) card.focus();
  }

  drawLegend() {
    const key = this.app.color + this.heats.texts.join() + words(this.app.graph).task + (this.marks.length > 0);
    if (this.legendFor === key) return;
    this.legendFor = key;
    this.legend.replaceChildren(
      h('span', {}, this.app.color === 'cpu' ? 'Colour: CPU of the steps from there' : 'Colour: mean wait'),
      h('span', { class: 'scale' }, ...this.heats.texts.map((text, i) => h('i', { class: `heat-${i}` }, text))),
      h('span', {}, `Size: ${words(this.app.graph).tasks} waiting`), h('span', {}, 'Line: steps per second'), ...this.marks.length ? [h('span', {}, 'Number: the finding')] : []);
  }
}
