// Histograms: small ones in tables, large ones in the panel, and the floating one that
// follows the pointer and the focus.

import { h, s, $ } from './dom.js';
import { duration, quantile, count, percent, bucketFrom, buckets } from './format.js';

// range of buckets worth drawing, with one to spare on each side.
function rangeOf(hist) {
  let first = hist.findIndex(n => n > 0);
  if (first < 0) return null;
  let last = hist.length - 1;
  while (last > first && !hist[last]) last--;
  first = Math.max(first - 1, 0);
  last = Math.min(last + 1, buckets - 1);
  return [first, last];
}

// spark is a histogram the size of a word. All of a column have the same scale of time,
// so that they can be compared: the whole of it.
export function spark(hist, from = 0, to = 28) {
  const w = 76, hgt = 18, top = Math.max(...hist, 1);
  const step = w / (to - from + 1);
  let d = '';
  for (let i = from; i <= to; i++) {
    let n = hist[i] || 0;
    if (i === to) for (let j = to + 1; j < hist.length; j++) n += hist[j];
    if (!n) continue;
    const tall = Math.max(1.5, (hgt - 1) * Math.sqrt(n / top));
    d += `M${((i - from) * step).toFixed(1)} ${hgt}v-${tall.toFixed(1)}h${(step - 0.6).toFixed(1)}v${tall.toFixed(1)}z`;
  }
  return s('svg', { class: 'micro', viewBox: `0 0 ${w} ${hgt}`, width: w, height: hgt, 'aria-hidden': 'true' },
    s('path', { class: 'base', d: `M0 ${hgt - 0.5}h${w}` }), s('path', { d }));
}

// chart is a histogram with an axis of time. It can be read without seeing it: label
// and the figures are in its description.
export function chart(times, label, small) {
  const range = rangeOf(times.hist);
  if (!range) return h('p', { class: 'none' }, `${label}: nothing was measured.`);
  const [first, last] = range;
  const n = last - first + 1;
  const w = small ? 260 : 360, tall = small ? 56 : 92, bottom = 16;
  const step = w / n;
  const total = times.hist.reduce((a, b) => a + b, 0);
  const top = Math.max(...times.hist);
  const svg = s('svg', { class: 'chart', viewBox: `0 0 ${w} ${tall + bottom}`, role: 'img', 'aria-label': describe(times, label) });
  let ticks = 0;
  for (let i = first; i <= last; i++) {
    const x = (i - first) * step, v = times.hist[i] || 0;
    const bar = v ? Math.max(2, (tall - 4) * v / top) : 0;
    if (v) {
      const rect = s('rect', { x: (x + 0.75).toFixed(2), y: (tall - bar).toFixed(2), width: (step - 1.5).toFixed(2), height: bar.toFixed(2), rx: 1.5 });
      rect.append(s('title', {}, document.createTextNode(`${duration(bucketFrom(i))} to ${duration(bucketFrom(i + 1))}: ${count(v)} (${percent(v / total)})`)));
      svg.append(rect);
    }
    if ((i - first) % Math.ceil(n / (small ? 4 : 6)) === 0 && x < w - 30) {
      svg.append(s('path', { class: 'tick', d: `M${x.toFixed(1)} ${tall}v4` }));
      svg.append(s('text', { x: (x + 2).toFixed(1), y: tall + 13 }, document.createTextNode(duration(bucketFrom(i)).replace(/\.\d+/, ''))));
      ticks++;
    }
  }
  svg.append(s('path', { class: 'base', d: `M0 ${tall}h${w}` }));
  for (const [name, at] of [['mean', times.mean], ['p99', times.p99]]) {
    const x = position(at, first) * step;
    if (at > 0 && x >= 0 && x <= w) {
      svg.append(s('path', { class: 'mark ' + name, d: `M${x.toFixed(1)} 0V${tall}` }));
      const flip = x > w - 34;
      svg.append(s('text', { class: 'mark ' + name, x: (flip ? x - 3 : x + 3).toFixed(1), y: name === 'mean' ? 9 : 19, 'text-anchor': flip ? 'end' : 'start' }, document.createTextNode(name)));
    }
  }
  return h('figure', { class: small ? 'hist small' : 'hist' },
    h('figcaption', {}, h('strong', {}, label), h('span', {}, `mean ${duration(times.mean)} · p50 ${quantile(times.n, times.p50)} · p99 ${quantile(times.n, times.p99)} · max ${duration(times.max)}`)),
    svg);
}

function position(ns, first) {
  if (ns < 32) return ns / 32 - first;
  return Math.log2(ns) - 4 - first;
}

function describe(times, label) {
  return `${label}: ${count(times.n)} measured, mean ${duration(times.mean)}, half up to ${quantile(times.n, times.p50)}, 99 of 100 up to ${quantile(times.n, times.p99)}, longest ${duration(times.max)}`;
}

// The floating description. It never takes the focus and goes away with Escape.
let owner = null, contentOf = null;

function showTip(target, content) {
  const tip = $('tip'), parts = content();
  if (!parts) {
    hideTip(target);
    return;
  }
  if (owner && owner !== target) owner.removeAttribute('aria-describedby');
  [owner, contentOf] = [target, content];
  tip.replaceChildren(...parts);
  tip.hidden = false;
  target.setAttribute('aria-describedby', 'tip');
  const at = target.getBoundingClientRect(), box = tip.getBoundingClientRect();
  const gap = 10, width = document.documentElement.clientWidth, height = innerHeight;
  let x = at.right + gap, y = at.top;
  if (x + box.width > width - 8) x = at.left - box.width - gap;
  if (x < 8) {
    x = Math.min(Math.max(at.left, 8), Math.max(width - box.width - 8, 8));
    y = at.bottom + gap;
    if (y + box.height > height - 8) y = at.top - box.height - gap;
  }
  y = Math.min(Math.max(y, 8), Math.max(height - box.height - 8, 8));
  tip.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
}

export function hideTip(target) {
  if (target && target !== owner) return false;
  const tip = $('tip'), shown = !tip.hidden;
  owner?.removeAttribute('aria-describedby');
  owner = contentOf = null;
  tip.hidden = true;
  return shown;
}

// refreshTip brings the description up to date after the figures have changed.
export function refreshTip() {
  if (!owner) return;
  if (owner.isConnected && owner.getClientRects().length) showTip(owner, contentOf);
  else hideTip();
}

// tipOn makes target show what content() gives, if anything, while the pointer is over
// it or it has the focus.
export function tipOn(target, content) {
  target.addEventListener('pointerenter', e => {
    // What moves under a pointer that rests does not take the place of what the keyboard is at.
    if (!owner || owner !== document.activeElement || e.movementX || e.movementY) showTip(target, content);
  });
  target.addEventListener('pointerleave', () => { if (document.activeElement !== target) hideTip(target); });
  target.addEventListener('focus', () => { if (target.matches(':focus-visible')) showTip(target, content); });
  target.addEventListener('blur', () => hideTip(target));
}
