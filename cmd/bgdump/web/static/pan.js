// Which part of the graph is seen, and how large.

import { s, sync, setAttribute, stillness } from './dom.js';

const least = 0.12, most = 2.5;
const readable = 11; // px: what is zoomed to has no smaller text
const legible = 8; // px: where text is smaller, boxes show their names only, as large as they can
const slip = 6; // px: a pointer that moves less has not dragged, but clicked
const margin = 30; // px around what is shown

export class View {
  // bounds gives what there is to be seen; cover gives an element that may lie above it.
  constructor(viewport, stage, bounds, cover) {
    Object.assign(this, { viewport, stage, bounds, cover, x: 0, y: 0, k: 1, touched: false, pointers: new Map(), dragged: false });
    this.seen = s('rect', { class: 'seen' });
    this.all = s('g');
    this.map = s('svg', { class: 'minimap', 'aria-hidden': 'true' }, this.all, this.seen);
    viewport.append(this.map);
    this.map.addEventListener('pointerdown', e => this.jump(e));
    viewport.addEventListener('wheel', e => this.wheel(e), { passive: false });
    viewport.addEventListener('pointerdown', e => this.down(e));
    viewport.addEventListener('pointermove', e => this.drag(e));
    for (const name of ['pointerup', 'pointercancel']) viewport.addEventListener(name, e => this.pointers.delete(e.pointerId));
    viewport.addEventListener('click', e => { if (this.dragged) e.stopPropagation(); }, { capture: true });
    new ResizeObserver(() => { if (!this.touched) this.fit(); }).observe(viewport);
    // The browser scrolls to what gets the focus; where the graph is, is our business.
    viewport.addEventListener('scroll', () => viewport.scrollTo(0, 0));
  }

  apply(smoothly) {
    this.stage.classList.toggle('gliding', Boolean(smoothly) && !stillness.matches);
    this.stage.style.transform = `translate(${this.x.toFixed(1)}px, ${this.y.toFixed(1)}px) scale(${this.k.toFixed(4)})`;
    this.stage.style.setProperty('--inverse', Math.min(Math.max(0.8 / this.k, 1), 6).toFixed(3)); // of what keeps its size
    this.stage.classList.toggle('far', (this.bounds()?.text || readable) * this.k < legible);
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

  // room is the part of the viewport that can be seen: it may reach beyond the window, and the
  // details lie above it on a phone.
  room() {
    const at = this.viewport.getBoundingClientRect(), { clientWidth: w, clientHeight: tall } = this.viewport;
    const cover = this.cover(), over = getComputedStyle(cover).position === 'fixed' ? cover.getBoundingClientRect().top : innerHeight;
    const top = Math.max(-at.top, 0), bottom = Math.min(tall, Math.min(innerHeight, over) - at.top);
    const hidden = bottom - top < 2 * margin + 40;
    return { left: 0, right: Math.max(w - 44, w / 2), top: hidden ? 0 : top, bottom: hidden ? tall : bottom }; // on the right are the buttons
  }

  // fit shows all of the graph.
  fit() {
    const box = this.bounds();
    const { clientWidth, clientHeight } = this.viewport;
    if (!box || !clientWidth || !clientHeight) return;
    const pad = 14, room = { left: 0, right: Math.max(clientWidth - 44, clientWidth / 2), top: 0, bottom: clientHeight };
    this.k = Math.min((room.right - 2 * pad) / box.right, (room.bottom - 2 * pad) / box.bottom, 1.25);
    this.center({ x: 0, y: 0, w: box.right, h: box.bottom }, room);
    this.touched = false;
    this.apply(true);
  }

  center(box, room) {
    this.x = (room.left + room.right) / 2 - (box.x + box.w / 2) * this.k;
    this.y = (room.top + room.bottom) / 2 - (box.y + box.h / 2) * this.k;
  }

  // show brings a box into view, so large that it can be read, if there is room for that.
  show(box) {
    const all = this.bounds();
    if (!box || !all || !this.viewport.clientWidth) return;
    const room = this.room();
    const fits = Math.min((room.right - room.left - 2 * margin) / box.w, (room.bottom - room.top - 2 * margin) / box.h);
    const k = Math.min(Math.max(this.k, readable / all.text), fits);
    const left = box.x * this.k + this.x, top = box.y * this.k + this.y;
    const seen = left >= room.left + 12 && left + box.w * k <= room.right - 12 && top >= room.top + 12 && top + box.h * k <= room.bottom - 12;
    if (seen && Math.abs(k - this.k) < 0.001) return;
    this.k = k;
    this.center(box, room);
    this.touched = true;
    this.apply(true);
  }

  zoom(by, x = this.viewport.clientWidth / 2, y = this.viewport.clientHeight / 2) {
    const k = Math.min(Math.max(this.k * by, Math.min(least, this.k)), most);
    this.x = x - (x - this.x) * k / this.k;
    this.y = y - (y - this.y) * k / this.k;
    this.k = k;
    this.touched = true;
    this.apply(false);
  }

  // pan moves what is seen by parts of the viewport: right and down are more than 0.
  pan(right, down) {
    this.x -= right * this.viewport.clientWidth;
    this.y -= down * this.viewport.clientHeight;
    this.touched = true;
    this.apply(true);
  }

  wheel(e) {
    // In a narrow window the page itself is scrolled.
    if (!e.ctrlKey && !e.metaKey && innerWidth < 900) return;
    e.preventDefault();
    const box = this.viewport.getBoundingClientRect();
    this.zoom(Math.exp(-Math.sign(e.deltaY) * Math.min(Math.abs(e.deltaY), 100) / 400), e.clientX - box.left, e.clientY - box.top);
  }

  down(e) {
    if (e.button !== 0) return;
    if (!this.pointers.size) this.dragged = false;
    this.pointers.set(e.pointerId, { x: e.clientX, y: e.clientY });
  }

  // grip is where the pointers hold the graph, and how far apart two of them are.
  grip() {
    const [a, b = a] = this.pointers.values(), at = this.viewport.getBoundingClientRect();
    return { x: (a.x + b.x) / 2 - at.left, y: (a.y + b.y) / 2 - at.top, apart: Math.hypot(a.x - b.x, a.y - b.y) };
  }

  // drag moves the graph with one pointer, and scales it with two.
  drag(e) {
    const p = this.pointers.get(e.pointerId);
    if (!p) return;
    if (!e.buttons) { // it was let go outside
      this.pointers.delete(e.pointerId);
      return;
    }
    if (!this.dragged && this.pointers.size < 2 && Math.hypot(e.clientX - p.x, e.clientY - p.y) < slip) return;
    if (!this.viewport.hasPointerCapture(e.pointerId)) this.viewport.setPointerCapture(e.pointerId);
    this.dragged = true;
    const before = this.grip();
    [p.x, p.y] = [e.clientX, e.clientY];
    const after = this.grip();
    this.x += after.x - before.x;
    this.y += after.y - before.y;
    this.zoom(before.apart && after.apart ? after.apart / before.apart : 1, after.x, after.y);
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
