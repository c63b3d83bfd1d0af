package browsertest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/cmd/bgdump/web/internal/sample"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// faults finds what WCAG 2.2 asks for and a machine can see: names that lack the text that is seen
// (2.5.3), targets smaller than 24 by 24 px (2.5.8) but for those in running text and boxes of a small graph, which a list and zooming stand for, roles inside of
// buttons, and headings that skip a level.
const faults = `(() => {
	const out = [], plain = text => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, ' ').trim();
	const seen = e => e.checkVisibility({ opacityProperty: true, visibilityProperty: true });
	const what = e => e.tagName + '.' + (e.getAttribute('class') || e.id) + ' ' + JSON.stringify(e.textContent.slice(0, 40));
	const widgets = 'button, a[href], summary, select, input, [role=button], [role=tab], [role=treeitem], [role=radio], [role=slider]';
	for (const e of document.querySelectorAll(widgets)) {
		if (!seen(e)) continue;
		const ids = (e.getAttribute('aria-labelledby') || '').split(' ').filter(Boolean);
		const name = ids.length ? ids.map(id => document.getElementById(id)?.textContent).join(' ') : e.getAttribute('aria-label');
		const text = plain(e.matches('select, input') ? [...e.labels].filter(seen).map(l => l.querySelector('span')?.textContent || l.firstChild.textContent).join(' ') : e.innerText ?? e.textContent);
		if (name && text.length > 1 && !plain(name).includes(text)) out.push('the name ' + JSON.stringify(name) + ' of ' + what(e) + ' lacks its text');
		const box = (e.matches('input[type=radio], input[type=checkbox]') ? e.closest('label') : e).getBoundingClientRect();
		if (e.closest('svg, .frame, .far, p') === null && !e.matches('.frame') && (box.width < 24 || box.height < 24) && box.width > 1) out.push(what(e) + ' is ' + box.width.toFixed(0) + ' by ' + box.height.toFixed(0));
		if (e.querySelector(widgets)) out.push('there is something to click inside of ' + what(e));
	}
	let level = 0;
	for (const e of [...document.querySelectorAll('h1, h2, h3, h4')].filter(seen)) {
		const now = Number(e.tagName[1]);
		if (now > level + 1) out.push('a heading of level ' + now + ' after one of ' + level + ': ' + e.textContent.slice(0, 40));
		level = now;
	}
	for (const e of document.querySelectorAll('ul, ol')) if ([...e.children].some(c => c.tagName !== 'LI')) out.push(what(e) + ' has more than items');
	return [...new Set(out)].slice(0, 20);
})()`

func TestAccessible(t *testing.T) {
	for name, l := range map[string]look{"wide": {still: true}, "narrow": {width: 390, height: 844, still: true}} {
		t.Run(name, func(t *testing.T) {
			src := shop()
			b := open(t, src, l)
			b.until("document.querySelectorAll('.node').length > 10 && Number(document.querySelector('.track .at').max) >= 12000")
			b.settle(src)
			check := func(where string) {
				t.Helper()
				for _, fault := range eval[[]string](b, faults) {
					t.Errorf("%s: %s", where, fault)
				}
			}
			for i, view := range []string{"graph", "nodes", "edges", "flame", "findings", "runtime"} {
				b.press(fmt.Sprint(i + 1))
				b.until(fmt.Sprintf("document.querySelector('#panel-%s').checkVisibility() && document.querySelector('#panel-%[1]s').textContent.length > 100", view))
				check(view)
			}
			for _, chosen := range []string{"2", "3"} {
				b.press(chosen, "g", "Enter")
				b.until("document.querySelector('#panel .close').checkVisibility() && document.querySelectorAll('#panel .chart').length > 0")
				check("details in view " + chosen)
				b.press("Escape")
			}
			b.press("?")
			b.until("document.querySelector('#help').open")
			check("help")
		})
	}
}

// A file is a source that always has the same to say.
type file struct{ snap *bgraph.Snapshot }

func (f file) Snapshot(context.Context) (*bgraph.Snapshot, error) {
	s := *f.snap
	return &s, nil
}

func (file) Name() string { return "trace.out" }

// A trace is shown in the words of goroutines, with what only traces tell.
func TestATrace(t *testing.T) {
	in, err := os.Open("../../../../internal/gotrace/testdata/go1.27.dump")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	s, err := bgraph.Decode(in)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		s.Stalled.Add(bgraph.Nanos(40 * time.Millisecond))
	}
	b := open(t, file{s}, look{width: 1400, height: 900, still: true})
	b.until("document.querySelector('#status').dataset.level === 'still'")
	testenv.Contains(t, b.text("#figures"), "processors; 200 ms may be the kernel's", "at the top")
	if eval[bool](b, "document.querySelector('#time').checkVisibility() || document.querySelector('#pause').checkVisibility()") {
		t.Error("there is a choice of moments, or a pause, though there is one moment")
	}
	woken := ""
	for i := range s.Nodes {
		if len(s.Nodes[i].Wakers) > 0 {
			woken = s.Nodes[i].Key.String()
		}
	}
	b.press("2")
	b.until("document.querySelector('#panel-nodes th.number button')?.title.includes('goroutines')")
	eval[bool](b, fmt.Sprintf("[...document.querySelectorAll('#panel-nodes tbody tr')].find(tr => tr.syncKey === '%s').click() === undefined", woken))
	b.until("[...document.querySelectorAll('#panel h3')].some(h => h.textContent === 'Woken by')")
	b.shot("node")
	b.press("3", "g", "Enter")
	b.until("[...document.querySelectorAll('#panel .content > p')].some(p => p.textContent.startsWith('A step: '))")
	b.press("6")
	b.until("document.querySelector('#panel-runtime').textContent.includes('Goroutines')")
	if got := b.text("#panel-runtime"); !strings.Contains(got, "The world stopped") || !strings.Contains(got, "5 times a goroutine had a P") || strings.Contains(got, "Leaked") || strings.Contains(got, "Watchdog") || strings.Contains(got, "loop") {
		t.Errorf("of a trace it says: %s", got)
	}
}

// cut finds what is written in tiles and not seen whole.
const cut = `[...document.querySelectorAll('.figure > *')].filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth || e.scrollHeight > e.clientHeight + 2 && e.clientHeight || e.getBoundingClientRect().right > e.parentElement.getBoundingClientRect().right).map(e => e.textContent)`

func TestNothingIsCutAt1400(t *testing.T) {
	src := &ticking{Program: sample.Wide(60)}
	b := open(t, src, look{width: 1400, height: 900, still: true, hash: "#tab=edges"})
	b.until("document.querySelectorAll('#panel-edges td.spark rect, #panel-edges td.spark path').length > 20")
	b.settle(src)
	const long = "for (const e of document.querySelectorAll('.figure small')) e.textContent = 'channel receive wide.(*service).backgroundRead via wide.(*service).Serve'; "
	if texts := eval[[]string](b, "(() => { "+long+"return "+cut+"; })()"); len(texts) > 0 {
		t.Errorf("cut in tiles: %q", texts)
	}
	if !eval[bool](b, "[...document.querySelectorAll('#panel-edges td.spark')].every(td => td.getBoundingClientRect().right < td.closest('.scroll').getBoundingClientRect().right)") {
		t.Error("the histograms of edges are beyond the table's border")
	}
	b.press("2")
	b.until("document.querySelectorAll('#panel-nodes tbody tr').length > 20")
	if texts := eval[[]string](b, "[...document.querySelectorAll('#panel-nodes .name')].filter(e => e.scrollHeight > e.clientHeight + 2 || e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)"); len(texts) > 0 {
		t.Errorf("names are cut: %q", texts)
	}
}

// Where boxes have grown or shrunk since they were arranged, lines still begin and end at them.
func TestLinesEndAtTheirBoxes(t *testing.T) {
	b := open(t, shop(), look{still: true})
	b.until("document.querySelectorAll('.node').length > 10")
	b.focus(".node") // nothing is arranged anew under somebody's hands
	b.until("[...document.querySelectorAll('.node')].some(n => Math.abs(n.drawn.scale - 1) > 0.05)")
	off := eval[[]string](b, `(() => {
		const boxOf = id => [...document.querySelectorAll('.node')].find(n => n.drawn.id === id).getBoundingClientRect();
		const k = new DOMMatrix(document.querySelector('.stage').style.transform).a;
		const out = [];
		for (const g of document.querySelectorAll('.edge')) {
			const [, line, arrow] = g.children, at = (e, p) => p.matrixTransform(e.getScreenCTM());
			for (const [id, p] of [[g.drawn.from, at(line, line.getPointAtLength(0))], [g.drawn.to, at(arrow, arrow.getPointAtLength(0))]]) {
				const box = boxOf(id), x = Math.max(box.left - p.x, p.x - box.right), y = Math.max(box.top - p.y, p.y - box.bottom);
				if (Math.abs(Math.max(x, y)) > 2 * k) out.push(g.drawn.id + ' ' + x.toFixed(1) + ' ' + y.toFixed(1));
			}
		}
		return out;
	})()`)
	testenv.EqualSlices(t, off, nil, "lines that end beside their boxes (by how much in x, y)")
}
