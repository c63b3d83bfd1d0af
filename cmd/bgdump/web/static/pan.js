// Which part of the graph is seen, and how large.

import { s, sync, setAttribute, stillness } from './dom.js';

const least = 0.12, most = 2.5;
const readable = 11; // px: no text is drawn smaller to show all

// along is the offset with which what reaches from low to high is seen in so much room:
// in the middle, or, if it is too large, with a point of it in the middle.
function along(room, low, high, point, k, pad) {
  if ((high - low) * k + 2 * pad <= room) return (room - (low + high) * k) / 2;
  return Math.max(Math.min(room / 2 - point * k, pad - low * k), room - pad - high * k);
}

export class View {
  // bounds gives what is to be seen; its middle is where to look if all is too much.
  constructor(viewport, stage, bounds) {
    Object.assign(this, { viewport, stage, bounds, x: 0, y: 0, k: 1, touched: false });
    this.seen = s('rect', { class: 'seen' });
    this.all = s('g');
    this.map = s('svg', { class: 'minimap', 'aria-hidden': 'true' }, this.all, this.seen);
    viewport.append(this.map);
    this.map.addEventListener('pointerdown', e => this.jump(e));
    viewport.addEventListener('wheel', e => this.wheel(e), { passive: false });
    viewport.addEventListener('pointerdown', e => this.down(e));
    new ResizeObserver(() => { if (!this.touched) this.fit(); }).observe(viewport);
    // The browser scrolls to what gets the focus; where the graph is, is our business.
    viewport.addEventListener('scroll', () => viewport.scrollTo(0, 0));
  }

  apply(smoothly) {
    this.stage.classList.toggle('gliding', Boolean(smoothly) && !stillness.matches);
    this.stage.style.transform = `translate(${this.x.toFixed(1)}px, ${this.y.toFixed(1)}px) scale(${this.k.toFixed(4)})`;
    this.drawMap();
  }

  // drawMap shows which part of all is seen, if it is not all.
  drawMap() {
    const box = this.bounds(), { clientWidth: w, clientHeight: tall } = this.viewport;
    const whole = !box || this.x >= -1 && this.y >= -1 && box.right * this.k + this.x <= w + 1 && box.bottom * this.k + this.y <= tall + 1;
    this.map.classList.toggle('needed', !whole);
    if (whole) return;
    const k = Math.min(Math.min(150, w / 4) / box.right, 110 / box.bottom);
    setAttribute(this.map, 'viewBox', `0 0 ${box.right} ${box.bottom}`);
    setAttribute(this.map, 'width', Math.round(box.right * k));
    setAttribute(this.map, 'height', Math.round(box.bottom * k));
    sync(this.all, box.boxes, d => d.id, () => s('rect'), (e, d) => { for (const [name, v] of [['x', d.x], ['y', d.y], ['width', d.w], ['height', d.h], ['class', `heat-${box.heat(d)}`]]) setAttribute(e, name, v); });
    for (const [name, v] of [['x', -this.x / this.k], ['y', -this.y / this.k], ['width', w / this.k], ['height', tall / this.k]]) setAttribute(this.seen, name, v.toFixed(1));
  }

  // jump goes to where the small map was clicked.
  jump(e) {
    const box = this.bounds(), at = this.map.getBoundingClientRect();
    e.stopPropagation();
    this.x = this.viewport.clientWidth / 2 - (e.clientX - at.left) / at.width * box.right * this.k;
    this.y = this.viewport.clientHeight / 2 - (e.clientY - at.top) / at.height * box.bottom * this.k;
    this.touched = true;
    this.apply(true);
  }

  fit() {
    const box = this.bounds();
    const { clientWidth, clientHeight } = this.viewport;
    if (!box || !clientWidth || !clientHeight) return;
    const pad = 14, w = clientWidth - 40, h = clientHeight; // beside are the buttons
    // Rather a part that can be read than all of it too small.
    this.k = Math.min(Math.max(Math.min((w - 2 * pad) / (box.right - box.left), (h - 2 * pad) / (box.bottom - box.top)), readable / box.text), 1.25);
    this.x = along(w, box.left, box.right, box.middle[0], this.k, pad);
    this.y = along(h, box.top, box.bottom, box.middle[1], this.k, pad);
    this.touched = false;
    this.apply(true);
  }

  zoom(by, x = this.viewport.clientWidth / 2, y = this.viewport.clientHeight / 2) {
    const k = Math.min(Math.max(this.k * by, least), most);
    this.x = x - (x - this.x) * k / this.k;
    this.y = y - (y - this.y) * k / this.k;
    this.k = k;
    this.touched = true;
    this.apply(false);
  }

  wheel(e) {
    // In a narrow window the page itself is scrolled.
    if (!e.ctrlKey && !e.metaKey && innerWidth < 900) return;
    e.preventDefault();
    const box = this.viewport.getBoundingClientRect();
    this.zoom(Math.exp(-Math.sign(e.deltaY) * Math.min(Math.abs(e.deltaY), 100) / 400), e.clientX - box.left, e.clientY - box.top);
  }

  down(e) {
    if (e.button !== 0 || e.target.closest('.node, .edge')) return;
    const from = { x: e.clientX - this.x, y: e.clientY - this.y };
    const move = m => {
      this.x = m.clientX - from.x;
      this.y = m.clientY - from.y;
      this.touched = true;
      this.apply(false);
    };
    const end = new AbortController();
    this.viewport.setPointerCapture(e.pointerId);
    this.viewport.addEventListener('pointermove', move, { signal: end.signal });
    for (const name of ['pointerup', 'pointercancel', 'lostpointercapture']) this.viewport.addEventListener(name, () => end.abort(), { signal: end.signal });
  }

  // reveal moves the graph so that a box can be seen.
  reveal(box) {
    if (!box) return;
    const { clientWidth: w, clientHeight: h } = this.viewport, pad = 12;
    const left = box.x * this.k + this.x, right = (box.x + box.w) * this.k + this.x;
    const top = box.y * this.k + this.y, bottom = (box.y + box.h) * this.k + this.y;
    const dx = left < pad ? pad - left : right > w - pad ? w - pad - right : 0;
    const dy = top < pad ? pad - top : bottom > h - pad ? h - pad - bottom : 0;
    if (!dx && !dy) return;
    this.x += dx;
    this.y += dy;
    this.touched = true;
    this.apply(true);
  }
}
