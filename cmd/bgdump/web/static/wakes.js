// Who wakes whom: a dashed arrow from where those that end waits had waited last, as far as their
// functions tell, to where they end them.

import { s, sync, setText, setAttribute } from './dom.js';
import { percent } from './format.js';

const bend = 0.18, leastBend = 120; // how far aside of the straight line it is drawn: of the distance, and px
const head = 9; // px, of an arrow

// border is where a line from the middle of a box towards a point leaves it.
function border(box, [x, y]) {
  const mx = box.x + box.w / 2, my = box.y + box.h / 2, dx = x - mx, dy = y - my;
  const t = Math.min(box.w * box.scale / 2 / Math.abs(dx || 1e-9), box.h * box.scale / 2 / Math.abs(dy || 1e-9));
  return [mx + dx * t, my + dy * t];
}

function curve(from, to) {
  const a = [from.x + from.w / 2, from.y + from.h / 2], b = [to.x + to.w / 2, to.y + to.h / 2];
  const far = Math.hypot(b[0] - a[0], b[1] - a[1]) || 1, aside = Math.max(bend, leastBend / far);
  const middle = [(a[0] + b[0]) / 2 - aside * (b[1] - a[1]), (a[1] + b[1]) / 2 + aside * (b[0] - a[0])];
  const start = border(from, middle), end = border(to, middle);
  const angle = Math.atan2(end[1] - middle[1], end[0] - middle[0]);
  const wing = turn => [end[0] - head * Math.cos(angle + turn), end[1] - head * Math.sin(angle + turn)];
  const text = p => p.map(v => v.toFixed(1)).join(' ');
  return {
    line: `M${text(start)}Q${text(middle)} ${text(end)}`, arrow: `M${text(end)}L${text(wing(0.45))}L${text(wing(-0.45))}z`,
    label: [0, 1].map(i => start[i] / 4 + middle[i] / 2 + end[i] / 4),
  };
}

export class Wakes {
  constructor() {
    this.element = s('g', { class: 'wakes', 'aria-hidden': 'true' }); // the details tell the same in words
  }

  // draw shows who ends waits at some of the boxes.
  draw(nodes, boxes) {
    const found = new Map();
    for (const to of nodes) {
      for (const [name, share, id] of to.node.wakers || []) {
        const from = boxes.get(id), key = `${id}-${to.id}`;
        if (!from || from === to) continue;
        const known = found.get(key);
        if (known) Object.assign(known, { share: known.share + share, names: [...known.names, name] });
        else found.set(key, { key, from, to, share, names: [name] });
      }
    }
    sync(this.element, [...found.values()], w => w.key, () => s('g', {}, s('title'), s('path', { class: 'line' }), s('path', { class: 'arrow' }), s('text', { 'text-anchor': 'middle' })), (g, w) => {
      const [title, line, arrow, label] = g.children, d = curve(w.from, w.to);
      setText(title, `${w.names.join(', ')} ends ${percent(w.share)} of the waits`);
      setAttribute(line, 'd', d.line);
      setAttribute(line, 'stroke-width', (1 + 2 * w.share).toFixed(1));
      setAttribute(arrow, 'd', d.arrow);
      setAttribute(label, 'x', d.label[0].toFixed(1));
      setAttribute(label, 'y', d.label[1].toFixed(1));
      setText(label, `wakes ${percent(w.share)}`);
    });
  }
}
