// The line of time: what was when, which moment is shown, and what it is compared with.

import { h, s, setText, setAttribute } from './dom.js';
import { clock, span, rate, count, words } from './format.js';

const W = 1000, H = 40;

export class Timeline {
  constructor(app) {
    this.app = app;
    this.area = s('path', { class: 'area' });
    this.tasks = s('path', { class: 'tasks' });
    this.period = s('rect', { class: 'period', y: 0, height: H });
    this.flag = s('path', { class: 'flag' });
    this.cursor = s('path', { class: 'cursor' });
    this.chart = s('svg', { viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' }, this.period, this.area, this.tasks, this.flag, this.cursor);
    this.at = this.slider('Moment shown', 'at');
    this.base = this.slider('Compare with the moment', 'base');
    this.caption = h('p', { class: 'caption' });
    this.scale = h('p', { class: 'scale-of-time', 'aria-hidden': 'true' });
    this.element = h('div', { class: 'timeline' }, h('div', { class: 'track' }, this.chart, this.at, this.base), h('div', { class: 'below' }, this.scale, this.caption));
  }

  slider(label, what) {
    const input = h('input', { type: 'range', class: what, min: 0, max: 1, step: 'any', value: 1, 'aria-label': label });
    const pick = () => {
      const i = this.nearest(Number(input.value));
      if (what === 'at') this.app.showMoment(i === this.moments.id.length - 1 ? 0 : this.moments.id[i]);
      else this.app.setBase(String(this.moments.id[Math.min(i, this.moments.id.length - 2)]));
    };
    input.addEventListener('input', pick);
    input.addEventListener('keydown', e => {
      const last = this.moments.id.length - 1, i = this.nearest(Number(input.value));
      const to = { ArrowLeft: i - 1, ArrowDown: i - 1, ArrowRight: i + 1, ArrowUp: i + 1, PageUp: i + 10, PageDown: i - 10, Home: 0, End: last }[e.key];
      if (to === undefined || e.altKey || e.ctrlKey || e.metaKey) return;
      e.preventDefault();
      input.value = this.time(Math.min(Math.max(to, 0), last));
      pick();
    });
    return input;
  }

  // time of moment i, in ms since the first.
  time(i) {
    return this.moments.taken[i] - this.moments.taken[0];
  }

  nearest(t) {
    const { taken } = this.moments;
    let best = 0;
    for (let i = 1; i < taken.length; i++) if (Math.abs(this.time(i) - t) <= Math.abs(this.time(best) - t)) best = i;
    return best;
  }

  index(id) {
    return this.moments.id.indexOf(id);
  }

  update() {
    const { app } = this, state = app.graph.state;
    this.moments = state.moments;
    const n = this.moments.id.length;
    const all = Math.max(this.time(n - 1), 1);
    const at = Math.max(this.index(state.at), 0), base = state.base ? this.index(state.base) : -1;
    this.element.classList.toggle('single', n < 2);
    const manual = /^\d+$/.test(app.params.base);
    this.base.hidden = !manual || n < 2;
    for (const [input, i] of [[this.at, at], [this.base, Math.max(base, 0)]]) {
      setAttribute(input, 'max', all);
      input.disabled = n < 2;
      const value = String(this.time(i));
      if (input.value !== value) input.value = value;
      setAttribute(input, 'aria-valuetext', `${clock(this.moments.taken[i])}${input === this.at && state.live ? ', live' : ''}`);
    }
    this.drawChart(all, at, base);
    const compared = base >= 0 ? `what happened in the ${span(state.span)} since ${clock(this.moments.taken[base])}` : `everything since the start, ${span(state.span)} ago`;
    const rest = base >= 0 || !/^last/.test(app.params.base) ? '' : ' (no earlier moment to compare with yet)';
    if (state.kind === 'goroutines') setText(this.caption, `A trace of ${span(state.span)}${state.taken ? ` up to ${clock(state.taken)}` : ''}. ${state.source.lazy ? 'While this page is seen, one second in ten is traced.' : ''}`);
    else setText(this.caption, `${!state.live ? 'Moment' : state.source.state === 'ok' && !state.source.still ? 'Live' : 'Latest'} ${clock(state.taken)}: ${compared}${rest}.`);
  }

  drawChart(all, at, base) {
    const { steps, tasks, taken } = this.moments, n = taken.length;
    const x = i => (W * this.time(i) / all).toFixed(1);
    const speed = [];
    for (let i = 1; i < n; i++) speed[i] = taken[i] > taken[i - 1] ? Math.max(steps[i] - steps[i - 1], 0) * 1000 / (taken[i] - taken[i - 1]) : 0;
    const top = Math.max(...speed.slice(1), 1), most = Math.max(...tasks, 1);
    let area = '', line = '';
    for (let i = 1; i < n; i++) {
      const y = (H - (H - 4) * speed[i] / top).toFixed(1);
      area += `${i === 1 ? `M${x(0)} ${H}V${y}` : ''}L${x(i)} ${y}`;
    }
    for (let i = 0; i < n; i++) line += `${i ? 'L' : 'M'}${x(i)} ${(H - 2 - (H - 6) * tasks[i] / most).toFixed(1)}`;
    setAttribute(this.area, 'd', area && `${area}V${H}z`);
    setAttribute(this.tasks, 'd', n > 1 ? line : '');
    setAttribute(this.cursor, 'd', `M${x(at)} 0V${H}`);
    setAttribute(this.flag, 'd', base >= 0 ? `M${x(base)} 0V${H}M${x(base)} 0l10 4l-10 4` : '');
    const from = base >= 0 ? Number(x(base)) : 0;
    setAttribute(this.period, 'x', from);
    setAttribute(this.period, 'width', Math.max(Number(x(at)) - from, 0));
    const now = speed[at] ?? 0;
    const parts = [`from ${clock(taken[0])} to ${clock(taken[n - 1])}`, `${rate(now)} steps/s`, `${count(tasks[at])} ${words(this.app.graph).tasks}`];
    if (this.scale.text !== parts.join()) {
      this.scale.text = parts.join();
      this.scale.replaceChildren(h('span', {}, parts[0]), h('span', {}, h('i', { class: 'key area' }), parts[1]), h('span', {}, h('i', { class: 'key tasks' }), parts[2]));
    }
    this.speed = now;
  }
}
