// The slowest requests of a trace, and how the time of one of them went by: a row for each goroutine of its chain, with what each
// waited for, when it was ready and when it ran. The visits are one stop of the Tab key; arrows go to the next one.

import { h, named, renew, setAttribute } from './dom.js';
import { duration, plural } from './format.js';
import { ask } from './feed.js';

export class Requests {
  constructor(app) {
    this.app = app;
    this.list = h('ol', { class: 'links slowest' });
    this.line = h('section', { class: 'request', 'aria-label': 'Timeline of a request' });
    this.element = h('div', { class: 'requests list' }, this.list, this.line);
    this.chosen = null; // what is shown: its number, its row of the list, and the trace that it is of
  }

  update() {
    const { state } = this.app.graph, all = state.slowest || [], trace = `${state.era} ${state.at}`;
    const key = JSON.stringify([all, trace, this.chosen?.n, this.chosen?.trace]);
    if (this.key === key) return;
    if (!renew(this.list, all.length ? all.map((r, i) => this.item(r, i + 1, trace)) : [h('li', { class: 'none' }, 'No request of net/http and no task of runtime/trace has ended.')])) return;
    this.key = key;
    if (all.length && !this.chosen?.byHand && this.chosen?.trace !== trace) this.choose(1, false);
    else if (this.chosen && this.chosen.trace !== trace) this.stale.hidden = false;
  }

  item([name, kind, took, begun, open], n, trace) {
    const shown = this.chosen?.n === n && this.chosen.trace === trace;
    return h('li', {}, h('span', { class: 'number-of' }, String(n)),
      h('button', { type: 'button', 'data-ref': `request ${n}`, 'aria-pressed': String(shown), onClick: () => this.choose(n, true) }, named(name),
        h('small', {}, `${kind}, from ${duration(begun)} of the trace on${begun ? '' : '; it began before'}${open ? '; it had not ended then' : ''}`)), h('span', {}, duration(took)));
  }

  // choose shows a request. A request that the user has chosen stays when the next trace comes.
  async choose(n, byHand) {
    const { app } = this, { state } = app.graph, row = state.slowest?.[n - 1];
    if (!row) return;
    const chosen = this.chosen = { n, row, byHand, trace: `${state.era} ${state.at}` };
    this.update();
    try {
      const data = await ask('request', { ...app.params, n });
      if (this.chosen === chosen) this.draw(row, data);
    } catch {
      if (this.chosen === chosen) this.chosen = null; // tried again with the next answer
    }
  }

  draw([name, , took], data) {
    this.stale = h('p', { class: 'muted', hidden: true }, 'Of a trace before this one.');
    this.details = h('div', { class: 'visit-details', 'aria-live': 'polite' });
    this.data = data;
    this.tracks = data.rows.map((who, row) => this.row(who, row));
    const lanes = h('div', { class: 'lanes', role: 'group', 'aria-label': 'Goroutines', onKeydown: e => this.keydown(e) }, ...this.tracks.map(t => t.lane), ...this.wakes());
    this.line.replaceChildren(h('h2', {}, named(`${name}: ${duration(took)}`)), this.stale,
      h('p', { class: 'kinds' }, ...[['wait', 'waiting'], ['ready', 'ready'], ['run', 'running']].map(([kind, text]) => h('span', {}, h('i', { class: kind }), text)), h('span', { class: 'muted' }, 'dashed: ended a wait')),
      lanes, h('p', { class: 'axis', 'aria-hidden': 'true' }, ...[0, 0.5, 1].map(part => h('span', {}, duration(data.took * part)))),
      data.short ? h('p', { class: 'muted' }, `${plural(data.short, 'short visit')} left out.`) : '', this.details);
    const longest = data.visits.reduce((a, b) => (b.row === 0 && (!a || (b.wait || 0) > (a.wait || 0)) ? b : a), null);
    this.show(longest || data.visits[0], false);
  }

  row(who, row) {
    const { data } = this, visits = data.visits.filter(v => v.row === row), part = ns => `${(100 * ns / data.took).toFixed(3)}%`;
    const buttons = visits.map(v => {
      const kinds = [['wait', v.wait], ['ready', v.ready], ['run', v.step]].filter(([, ns]) => ns);
      const e = h('button', { type: 'button', class: 'visit', 'aria-label': `${v.place}: ${told(v)}`, onFocus: () => this.show(v, false) }, ...kinds.map(([kind, ns]) => {
        const i = h('i', { class: kind });
        i.style.flexGrow = ns;
        return i;
      }));
      e.style.left = part(v.from);
      e.style.width = part(total(v));
      return e;
    });
    // A click beside a visit that is too narrow to be hit counts, too.
    const nearest = e => {
      const at = (e.clientX - track.getBoundingClientRect().left) / track.clientWidth * data.took;
      return visits.reduce((a, b) => (away(b, at) < away(a, at) ? b : a));
    };
    const track = h('div', { class: 'lane-track', onClick: e => this.show(e.detail ? nearest(e) : visits[buttons.indexOf(e.target)] || nearest(e), true) }, ...buttons);
    return { visits, buttons, lane: h('div', { class: 'lane' }, named(who, 'who'), track) };
  }

  // wakes are lines from the goroutines that ended waits to the goroutines that waited.
  wakes() {
    const { data } = this;
    return data.visits.filter(v => v.byRow).map(v => {
      const by = v.byRow - 1, e = h('i', { class: 'woke' });
      e.style.left = `${(100 * (v.from + v.wait) / data.took).toFixed(3)}%`;
      e.style.setProperty('--from', Math.min(by, v.row));
      e.style.setProperty('--rows', Math.abs(by - v.row));
      return e;
    });
  }

  show(v, move) {
    this.tracks.forEach(t => t.visits.forEach((o, i) => {
      setAttribute(t.buttons[i], 'aria-pressed', String(o === v));
      t.buttons[i].tabIndex = o === v ? 0 : -1;
      if (o === v && move && document.activeElement !== t.buttons[i]) t.buttons[i].focus({ preventScroll: true });
    }));
    if (this.shown === v && this.details.firstChild || !v) return;
    this.shown = v;
    this.details.replaceChildren(h('h3', {}, named(v.place)), v.path ? h('p', {}, h('code', {}, v.path)) : '', h('p', {}, `${this.data.rows[v.row]}, ${duration(v.from)} after the begin: ${told(v)}.`),
      this.app.graph.byKey.has(v.key) ? h('button', { type: 'button', class: 'plain', onClick: () => this.toGraph(v.key) }, 'Show in the graph') : '');
  }

  toGraph(key) {
    this.app.showTab('graph');
    this.app.select({ node: key }, true);
  }

  keydown(e) {
    if (e.altKey || e.ctrlKey || e.metaKey || !this.shown) return;
    const { row, from } = this.shown, own = this.tracks[row].visits, at = own.indexOf(this.shown);
    const to = {
      ArrowRight: () => own[at + 1], ArrowLeft: () => own[at - 1], Home: () => own[0], End: () => own.at(-1),
      ArrowDown: () => this.near(row + 1, from), ArrowUp: () => this.near(row - 1, from),
    }[e.key];
    if (!to) return;
    e.preventDefault();
    e.stopPropagation();
    const v = to();
    if (v) this.show(v, true);
  }

  near(row, at) {
    return this.tracks[row]?.visits.reduce((a, b) => (away(b, at) < away(a, at) ? b : a));
  }
}

function total(v) {
  return (v.wait || 0) + (v.ready || 0) + (v.step || 0);
}

// away is how far a visit is from a moment.
function away(v, at) {
  return Math.max(v.from - at, at - v.from - total(v), 0);
}

function told(v) {
  return [v.wait ? `waits for ${duration(v.wait)}${v.by ? `, until ${v.by} ends that` : ', until the network or time ends that'}` : '', v.ready ? `ready for ${duration(v.ready)}` : '', v.step ? `runs for ${duration(v.step)}` : ''].filter(Boolean).join('; ');
}
