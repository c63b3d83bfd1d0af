// How the source is: a word and a dot in the header, and a banner when something is
// wrong. Both are read out.

import { setText, setAttribute } from './dom.js';
import { clock, span } from './format.js';

const slow = 3e9; // ns after which a question without an answer is worth a word

export class Banner {
  constructor(banner, status) {
    Object.assign(this, { banner, status });
  }

  state(state) {
    const { source } = state;
    const paused = state.at && !state.live;
    if (source.state === 'gone') {
      this.show(`${source.name} has not answered since ${clock(source.since)}: ${source.error}. ${state.program ? 'What is shown is the last that came from it. ' : ''}It is asked again and again.`);
      this.mark('gone', 'Source gone');
    } else if (source.state === 'new' || source.asking > slow) {
      this.show(source.asking > slow ? `Waiting for an answer from ${source.name} for ${span(source.asking)}.` : '');
      this.mark('waiting', 'Waiting for the source');
    } else {
      this.show('');
      if (source.still) this.mark('still', 'Does not change');
      else if (paused) this.mark('paused', 'Paused');
      else this.mark('live', 'Live');
    }
    if (state.note) this.show(`There is no difference to show: ${state.note}`);
  }

  lost(error) {
    if (error.name === 'AbortError') return;
    this.show(`bgdump itself does not answer; this page shows what came last. It is asked again and again. (${error.message})`);
    this.mark('gone', 'bgdump gone');
  }

  show(text) {
    setText(this.banner, text);
    this.banner.hidden = text === '';
  }

  mark(level, text) {
    setAttribute(this.status, 'data-level', level);
    setText(this.status.lastElementChild, text);
  }

  // say has something read out that can be seen anyway.
  say(text) {
    setText(document.getElementById('said'), text);
  }
}
