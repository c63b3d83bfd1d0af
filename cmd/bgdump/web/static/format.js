// How figures are written: short, of about three significant digits.

function digits(v) {
  if (v < 9.995) return v.toFixed(2);
  if (v < 99.95) return v.toFixed(1);
  return v.toFixed(0);
}

const grouped = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

export function duration(ns) {
  if (!ns) return '0';
  if (ns < 0) return '−' + duration(-ns);
  if (ns < 1000) return Math.round(ns) + ' ns';
  let v = ns;
  for (const unit of ['µs', 'ms', 's']) {
    v /= 1000;
    if (v < 999.5 && (unit !== 's' || v < 99.95)) return digits(v) + ' ' + unit;
  }
  const s = Math.round(ns / 1e9);
  const two = n => String(n).padStart(2, '0');
  if (s < 3600) return `${Math.floor(s / 60)} m ${two(s % 60)} s`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} m`;
  const days = Math.floor(s / 86400);
  return days < 1000 ? `${days} d` : `${Math.floor(days / 365)} y`;
}

// A span is a duration for people, without needless zeros: 10 s, 1 min.
export function span(ns) {
  const s = ns / 1e9;
  if (s < 10) return `${+s.toFixed(1)} s`;
  if (s < 100) return `${Math.round(s)} s`;
  return duration(ns);
}

// words are what a graph is of: tasks on event loops, or goroutines on Ps.
export function words(graph) {
  return graph.state.kind === 'goroutines' ? { task: 'goroutine', tasks: 'goroutines', loop: 'P', loops: 'Ps' } : { task: 'task', tasks: 'tasks', loop: 'loop', loops: 'loops' };
}

export function count(n) {
  if (n < 0) return '−' + count(-n);
  return n < 1e6 ? grouped.format(n) : metric(n);
}

function metric(v) {
  for (const prefix of ['k', 'M', 'G', 'T', 'P', 'E']) {
    v /= 1000;
    if (v < 999.5) return digits(v) + ' ' + prefix;
  }
  return '>999 E';
}

// quantile is that of times, which few times do not have.
export const quantile = (n, v) => n > 0 && !v && n < 10 ? '–' : duration(v);

export function rate(v) {
  if (!Number.isFinite(v)) return '–';
  if (v < 0) return '−' + rate(-v);
  if (v === 0) return '0';
  if (v < 0.005) return '<0.01';
  if (v < 999.5) return String(+digits(v));
  return v < 999999.5 ? grouped.format(v) : metric(v);
}

export function bytes(v) {
  if (v < 0) return '−' + bytes(-v);
  if (v < 1023.5) return `${Math.round(v)} B`;
  for (const unit of ['KiB', 'MiB', 'GiB', 'TiB', 'PiB']) {
    v /= 1024;
    if (v < 999.5) return digits(v) + ' ' + unit;
  }
  return digits(v / 1024) + ' EiB';
}

// An amount of a resource: of bytes, or of things.
export function amount(v, unit) {
  if (unit === 'bytes') return bytes(v);
  const text = Number.isInteger(v) ? count(v) : rate(v);
  return unit ? `${text} ${unit}` : text;
}

export function signed(v, write) {
  return v > 0 ? '+' + write(v) : write(v);
}

export function percent(share) {
  if (!Number.isFinite(share)) return '–';
  if (share === 0) return '0 %';
  if (Math.abs(share) < 0.0005) return '<0.1 %';
  return (Math.abs(share) < 0.0995 ? (100 * share).toFixed(1) : Math.round(100 * share)) + ' %';
}

export function plural(n, thing, things = thing + 's') {
  return `${count(n)} ${n === 1 ? thing : things}`;
}

const clockFormat = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const dayFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });

export function clock(ms) {
  const d = new Date(ms);
  return Number.isNaN(d.getTime()) ? '–' : clockFormat.format(d);
}

export function day(ms) {
  const d = new Date(ms);
  return Number.isNaN(d.getTime()) ? '–' : dayFormat.format(d);
}

// The lower bound of bucket i of a histogram, in nanoseconds.
export function bucketFrom(i) {
  return i <= 0 ? 0 : 2 ** (i + 4);
}

export const buckets = 32;
