// A table that can be sorted by any column, with the pointer and with the keyboard. Rows
// are one stop of the Tab key; the arrow keys move among them.

import { h, sync, setText, setAttribute } from './dom.js';
import { tipOn, hideTip } from './hist.js';

// A column has id, title, hint, and value(row); text(row) if it is not a plain text, or
// cell(td, row); number: right-aligned, and sorted from the largest first.
const headKeys = columns => columns.map(c => c.id + c.hint).join();

export class Table {
  constructor({ caption, columns, keyOf, tip, onOpen, onSort, sort, labelOf }) {
    Object.assign(this, { columns, keyOf, tip, onOpen, onSort, sort, labelOf });
    this.rows = [];
    this.current = null;
    this.selected = null;
    this.head = h('tr');
    this.body = h('tbody', { onKeydown: e => this.keydown(e) });
    this.table = h('table', {}, h('caption', { class: 'unseen' }, caption), h('thead', {}, this.head), this.body);
    this.empty = h('p', { class: 'none', hidden: true }, 'Nothing to show here.');
    this.element = h('div', { class: 'scroll', role: 'region', 'aria-label': caption }, this.table, this.empty);
    this.header();
  }

  header() {
    this.headKeys = headKeys(this.columns);
    sync(this.head, this.columns, c => c.id, c => h('th', { scope: 'col', class: c.number ? 'number' : '', 'data-column': c.id },
      c.value ? h('button', { type: 'button', title: c.hint, onClick: () => this.sortBy(c) }, h('span', {}, c.title), h('span', { class: 'order', 'aria-hidden': 'true' })) : h('span', { title: c.hint }, c.title)), (th, c) => { th.firstChild.title = c.hint; });
  }

  setColumns(columns) {
    this.columns = columns;
    if (headKeys(columns) === this.headKeys) return;
    for (const tr of this.body.children) tr.replaceChildren();
    this.header();
  }

  sortBy(column) {
    const down = this.sort.column === column.id ? !this.sort.down : Boolean(column.number);
    this.onSort({ column: column.id, down });
  }

  // show fills the table with the first n of rows.
  show(rows, sort, limit, selected) {
    this.sort = sort;
    this.selected = selected;
    this.columns.forEach((c, i) => {
      const by = sort.column === c.id;
      setAttribute(this.head.children[i], 'aria-sort', !c.value ? null : by ? (sort.down ? 'descending' : 'ascending') : 'none');
    });
    const column = this.columns.find(c => c.id === sort.column && c.value) || this.columns[0];
    const sign = sort.down ? -1 : 1;
    const compare = (a, b) => {
      const x = column.value(a), y = column.value(b);
      const order = typeof x === 'string' ? x.localeCompare(y) : x - y;
      return sign * order || (this.keyOf(a) < this.keyOf(b) ? -1 : 1);
    };
    this.rows = [...rows].sort(compare).slice(0, limit);
    this.total = rows.length;
    if (!this.rows.some(r => this.keyOf(r) === this.current)) this.current = this.rows.length ? this.keyOf(this.rows[0]) : null;
    sync(this.body, this.rows, this.keyOf, row => this.make(row), (tr, row) => this.update(tr, row));
    this.empty.hidden = this.rows.length > 0;
    this.table.hidden = this.rows.length === 0;
  }

  make() {
    const tr = h('tr', {
      onClick: () => this.onOpen(tr.row),
      onFocus: () => this.setCurrent(this.keyOf(tr.row)),
    });
    tipOn(tr, () => this.tip(tr.row));
    return tr;
  }

  update(tr, row) {
    tr.row = row;
    const key = this.keyOf(row);
    tr.tabIndex = key === this.current ? 0 : -1;
    setAttribute(tr, 'aria-current', key === this.selected ? 'true' : null);
    while (tr.children.length < this.columns.length) {
      const c = this.columns[tr.children.length];
      tr.append(h(c.heading ? 'th' : 'td', { class: c.class || (c.number ? 'number' : ''), scope: c.heading ? 'row' : undefined }));
    }
    this.columns.forEach((c, i) => {
      const td = tr.children[i];
      if (c.cell) c.cell(td, row);
      else setText(td, c.text ? c.text(row) : String(c.value(row)));
    });
  }

  setCurrent(key) {
    this.current = key;
    for (const tr of this.body.children) tr.tabIndex = tr.syncKey === key ? 0 : -1;
  }

  keydown(e) {
    if (e.altKey || e.ctrlKey || e.metaKey || e.target.parentElement !== this.body) return;
    const at = [...this.body.children].indexOf(e.target);
    const last = this.rows.length - 1;
    const to = {
      ArrowDown: Math.min(at + 1, last), ArrowUp: Math.max(at - 1, 0), Home: 0, End: last,
      PageDown: Math.min(at + 10, last), PageUp: Math.max(at - 10, 0),
    }[e.key];
    if (to !== undefined) {
      e.preventDefault();
      this.body.children[to].focus();
    } else if (e.key === 'Enter' || e.key === ' ') {
      e.preventDefault();
      hideTip();
      this.onOpen(e.target.row);
    }
  }
}
