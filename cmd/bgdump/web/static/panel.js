// The panel beside the graph: the details of a node or an edge, or, if none is chosen,
// where to look first.

import { h, s, named, setText, renew, folding } from './dom.js';
import { duration, count, rate, percent, plural, amount, bytes, signed, words } from './format.js';
import { chart } from './hist.js';
import { share } from './tips.js';
import { ask } from './feed.js';
import { idOf } from './marks.js';

const foundFirst = 6; // findings, of those that look wrong

export class Panel {
  constructor(app) {
    this.app = app;
    this.title = h('h2', { tabIndex: -1 });
    this.close = h('button', { type: 'button', class: 'close', 'aria-label': 'Close the details (Esc)', title: 'Close (Esc)', onClick: () => app.select(null) }, '×');
    this.content = h('div', { class: 'content' });
    this.element = h('aside', { id: 'panel', 'aria-label': 'Details' }, h('header', {}, this.title, this.close), this.content);
    this.open = new Set(['stack']);
    this.track = { key: '', data: null };
  }

  update() {
    const { app } = this, { graph, sel } = app;
    const node = sel?.node && graph.byKey.get(sel.node), edge = sel?.edge && graph.edgeById.get(sel.edge);
    this.close.hidden = !sel;
    this.element.classList.toggle('chosen', Boolean(sel));
    let title, parts;
    if (node) [title, parts] = [node.name, this.node(node)];
    else if (edge) [title, parts] = [edge.name, this.edge(edge)];
    else if (sel) [title, parts] = [app.nameOf(sel), [h('p', { class: 'none' }, 'Nothing happened there in this period.')]];
    else [title, parts] = ['Where to look first', this.first()];
    setText(this.title, title);
    this.title.title = title;
    const top = this.element.scrollTop;
    renew(this.content, parts.flat().filter(Boolean));
    this.element.scrollTop = top;
  }

  first() {
    const { graph } = this.app;
    const best = (value, n = 4) => graph.nodes.filter(x => value(x) > 0).sort((a, b) => value(b) - value(a)).slice(0, n);
    const list = (title, nodes, figure) => nodes.length ? h('section', {}, h('h3', {}, title), h('ul', { class: 'links' }, ...nodes.map(n => h('li', {}, this.link(n.place, { node: n.key }, title), h('span', {}, figure(n)))))) : null;
    const steps = graph.edges.filter(e => e.cpu.max > 0).sort((a, b) => b.cpu.max - a.cpu.max).slice(0, 4);
    const findings = graph.state.findings || [];
    return [
      findings.length ? h('section', {}, h('h3', {}, 'What looks wrong'), h('ol', { class: 'links findings' }, ...findings.slice(0, foundFirst).map((f, i) => h('li', { class: f.severity },
        h('span', { class: 'number-of' }, String(i + 1)),
        h('button', { type: 'button', 'data-ref': `finding ${idOf(f)}`, onClick: () => this.app.showFinding(f) }, named(`${f.check}: ${f.name}`), h('small', {}, f.message)))),
      findings.length > foundFirst ? h('li', {}, h('button', { type: 'button', 'data-ref': 'more findings', onClick: () => this.app.showTab('findings') }, `All ${findings.length} findings`)) : null)) : null,
      this.slowest(),
      list(`Most ${words(graph).tasks} waiting`, best(n => n.waiting), n => rate(n.waiting)),
      list('Most CPU', best(n => n.cpu), n => percent(share(n.cpu, graph.cpuTotal))),
      list('Longest from ready to running', best(n => n.ready.p99), n => `p99 ${duration(n.ready.p99)}`),
      steps.length ? h('section', {}, h('h3', {}, 'Longest steps'), h('ul', { class: 'links' }, ...steps.map(e => h('li', {}, this.edgeLink(e, 'long'), h('span', {}, duration(e.cpu.max)))))) : null,
      list('Waiting for longest', best(n => n.oldest), n => duration(n.oldest)),
      h('p', { class: 'muted' }, 'Choose a node or an edge for its details. Press ? for the keys.'),
    ];
  }

  slowest() {
    const all = (this.app.graph.state.slowest || []).slice(0, 3);
    return all.length ? h('section', {}, h('h3', {}, 'Slowest requests'), h('ul', { class: 'links' }, ...all.map(([name, , took], i) => h('li', {}, h('button', { type: 'button', 'data-ref': `slow ${i}`, onClick: () => this.app.showRequest(i + 1) }, named(name)), h('span', {}, duration(took)))))) : null;
  }

  link(place, sel, ref) {
    return h('button', { type: 'button', 'data-ref': `${ref} ${sel.node}`, onClick: () => this.app.select(sel, true) }, named(place.name), h('small', {}, place.chain || place.where || ''));
  }

  edgeLink(edge, ref, text) {
    return h('button', { type: 'button', 'data-ref': `${ref} ${edge.id}`, onClick: () => this.app.select({ edge: edge.id }, true) }, named(text || edge.name));
  }

  figures(pairs) {
    return h('dl', { class: 'figures' }, ...pairs.filter(Boolean).map(([name, value, hint]) => h('div', { title: hint }, h('dt', {}, name), h('dd', {}, value))));
  }

  node(n) {
    const { graph } = this.app;
    const delta = graph.compared && n.now !== n.was ? ` (${signed(n.now - n.was, count)})` : '';
    return [
      h('p', { class: 'where' }, h('span', { class: 'chip' }, n.place.reason), n.place.label ? h('span', { class: 'chip label' }, n.place.label) : null, h('code', {}, n.place.path || n.place.where || ''), h('code', { class: 'muted', title: 'the key of the node' }, n.key)),
      this.figures([
        ['Waiting now', count(n.now) + delta, `${words(graph).tasks} there now`], ['On average', rate(n.waiting), `${words(graph).tasks} there on average; now, if that are more`], ['Peak', count(n.peak), 'most at a time, at most'],
        ['Arrivals', `${rate(n.inRate)}/s`, count(n.in)], ['Departures', `${rate(n.outRate)}/s`, count(n.out)],
        ['CPU of steps from here', `${percent(share(n.cpu, graph.cpuTotal))}`, duration(n.cpu)],
        ['Oldest', n.oldest ? duration(n.oldest) : '–', 'how long the one that has been there longest has waited'],
      ]),
      this.trackOf(n),
      chart(n.wait, 'Waiting'),
      chart(n.ready, 'Ready, until it runs'),
      this.findingsOf(f => f.to === n.id || f.from === n.id),
      this.wakers(n),
      this.sched(n),
      n.loops.length > 1 ? this.loops(n) : null,
      this.edges('Steps from here', n.edgesOut, e => e.to, n),
      this.edges('Steps to here', n.edgesIn, e => e.from, n),
      this.stack('stack', 'Stack', n.place.stack),
    ];
  }

  // trackOf is a line of how many tasks waited at each moment.
  trackOf(n) {
    const { app } = this, state = app.graph.state, key = `${state.era}/${n.id}`;
    const at = `${key}/${state.moments.id.at(-1)}`;
    if (this.track.at !== at) {
      this.track.at = at;
      if (this.track.key !== key) this.track.data = null;
      this.track.key = key;
      ask('track', { place: n.id }).then(data => {
        if (this.track.key !== key) return;
        const first = !this.track.data;
        this.track.data = data;
        if (first) this.update();
      }).catch(() => {});
    }
    const data = this.track.data;
    if (!data || data.now.length < 2) return null;
    const w = 360, tall = 44, top = Math.max(...data.now, 1), step = w / (data.now.length - 1);
    const d = data.now.map((v, i) => `${i ? 'L' : 'M'}${(i * step).toFixed(1)} ${(tall - 1 - (tall - 4) * v / top).toFixed(1)}`).join('');
    return h('figure', { class: 'hist' }, h('figcaption', {}, h('strong', {}, 'Waiting, over the moments remembered'), h('span', {}, `highest ${count(top)}`)),
      s('svg', { class: 'chart line', viewBox: `0 0 ${w} ${tall}`, role: 'img', 'aria-label': `Waiting: from ${count(data.now[0])} to ${count(data.now.at(-1))}, highest ${count(top)}` },
        s('path', { class: 'fill', d: `${d}V${tall}H0z` }), s('path', { class: 'stroke', d })));
  }

  findingsOf(mine) {
    const all = this.app.graph.state.findings || [], found = all.filter(mine);
    if (!found.length) return null;
    return h('section', {}, h('h3', {}, 'What looks wrong'), ...found.map(f => h('div', { class: `finding ${f.severity}` }, h('strong', {}, h('span', { class: 'number-of' }, String(all.indexOf(f) + 1)), ` ${f.check}`), h('p', {}, f.message, f.at ? h('code', {}, ` ${f.at}`) : ''), f.path ? h('p', {}, h('code', {}, f.path)) : null, h('p', { class: 'advice' }, f.advice))));
  }

  wakers(n) {
    const { graph } = this.app;
    if (!n.wakers.length) return null;
    return h('section', {}, h('h3', {}, 'Woken by'), h('ul', { class: 'links' }, ...n.wakers.map(([name, part, from]) => h('li', {}, from ? h('button', { type: 'button', 'data-ref': `waker ${name}`, onClick: () => this.app.select({ node: graph.placeOf(from).key }, true) }, named(name)) : named(name), h('span', {}, percent(part))))));
  }

  sched(n) {
    const ranks = (this.app.graph.state.sched?.nodes || []).filter(r => r[0] === n.id);
    if (!ranks.length) return null;
    return h('section', {}, h('h3', {}, 'What the scheduler says'), h('table', {}, h('thead', {}, h('tr', {}, ...['Loop', 'Priority', 'Tickets', 'Pass', 'Ready'].map(t => h('th', { scope: 'col', class: 'number' }, t)))),
      h('tbody', {}, ...ranks.map(r => h('tr', {}, h('td', { class: 'number' }, r[1]), h('td', { class: 'number' }, rate(r[2])), h('td', { class: 'number' }, count(r[3])), h('td', { class: 'number' }, count(r[4])), h('td', { class: 'number' }, count(r[5])))))),
    ...ranks.filter(r => r[6]).map(r => h('p', { class: 'held' }, `Held back on loop ${r[1]}: ${r[6]}`)));
  }

  loops(n) {
    return h('section', {}, h('h3', {}, 'By loop'), h('table', {}, h('thead', {}, h('tr', {}, ...['Loop', 'Waiting', 'Peak', 'Arrivals', 'Departures'].map(t => h('th', { scope: 'col', class: 'number' }, t)))),
      h('tbody', {}, ...n.loops.slice(0, 64).map(l => h('tr', {}, ...l.map(v => h('td', { class: 'number' }, count(v))))))));
  }

  edges(title, edges, other, n) {
    if (!edges.length) return null;
    const most = Math.max(...edges.map(e => e.count), 1);
    return h('section', {}, h('h3', {}, title), h('ul', { class: 'links weighed' }, ...[...edges].sort((a, b) => b.count - a.count).slice(0, 30).map(e => {
      const bar = h('i');
      bar.style.width = `${100 * e.count / most}%`;
      return h('li', {}, bar, this.edgeLink(e, title, other(e).key === n.key ? 'itself' : other(e).name), h('span', {}, `${rate(e.rate)}/s · ${duration(e.cpu.mean)}`));
    })));
  }

  edge(e) {
    const { graph } = this.app;
    const resources = graph.state.resources || [];
    return [
      h('p', { class: 'ends' }, 'from ', this.link(e.from, { node: e.from.key }, 'from'), ' to ', this.link(e.to, { node: e.to.key }, 'to')),
      this.figures([
        ['Steps', `${rate(e.rate)}/s`, count(e.count)], ['Share of CPU', percent(share(e.total, graph.cpuTotal)), duration(e.total)],
        ['Recently', `${duration(e.recent)} ± ${duration(e.deviation)}`, 'CPU time of a step, the latest counting most'], ['Longest', duration(e.cpu.max)],
        e.heap[0] ? ['Heap per step', bytes(e.heapMean), `${count(e.heap[0])} steps measured`] : null,
        graph.state.kind === 'goroutines' ? null : ['Overruns', count(e.overruns), 'steps that the watchdog found too long'],
      ]),
      chart(e.cpu, 'CPU per step'),
      ...e.notes.map(text => h('p', {}, text[0].toUpperCase() + text.slice(1))),
      e.changes.length ? h('section', {}, h('h3', {}, 'Taken (+) and given back (−) per step'), h('ul', { class: 'links' }, ...e.changes.map((c, i) => resources[i] && h('li', {}, h('span', {}, resources[i].name), h('span', {}, signed(c[0] ? c[1] / c[0] : 0, v => amount(v, resources[i].unit))))))) : null,
      this.findingsOf(f => f.from === e.from.id && f.to === e.to.id),
      e.overruns ? h('p', {}, h('button', { type: 'button', class: 'plain', 'data-ref': 'overruns', onClick: () => this.app.showTab('runtime') }, 'See the watchdog’s reports')) : null,
      this.stack('from', 'Stack where the step begins', e.from.stack),
      this.stack('to', 'Stack where it ends', e.to.stack),
    ];
  }

  stack(id, title, frames) {
    if (!frames.length) return null;
    return folding(this.open, id, h('summary', { 'data-ref': `stack ${id}` }, `${title} (${plural(frames.length, 'call')})`),
      h('ol', { class: 'stack' }, ...frames.map(([f, file, line]) => h('li', {}, h('code', {}, named(f)), h('small', {}, h('bdi', {}, `${file}:${line}`))))));
  }
}
