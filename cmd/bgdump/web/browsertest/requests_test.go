package browsertest

import (
	"fmt"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// slowBackend is a capture whose requests wait for goroutines of their own, each of which asks a backend.
func slowBackend(t *testing.T) capture {
	t.Helper()
	for _, c := range captures(t) {
		if c.name == "slow-backend" {
			return c
		}
	}
	t.Fatal("there is no capture slow-backend")
	return capture{}
}

// A click on one of the slowest requests shows its goroutines as rows, and a click on a wait where that is and who ended it: on a
// screen, and on a phone, where nothing is wider than the window.
func TestTimelineOfARequest(t *testing.T) {
	c := slowBackend(t)
	for _, l := range sizes {
		t.Run(fmt.Sprint(l.width), func(t *testing.T) {
			b := open(t, c, l)
			b.click("#panel [data-ref='slow 1']")
			b.until("document.querySelectorAll('#panel-requests .lane').length >= 2 && document.querySelector('[data-ref=\"request 2\"]').getAttribute('aria-pressed') === 'true'")
			testenv.Equal(t, eval[int](b, "document.querySelectorAll('.slowest li').length"), len(c.snapshot.Slowest), "requests in the list")
			testenv.Contains(t, b.text(".lane:first-child .who"), "main.slowBackend.func1")
			testenv.Contains(t, b.text(".lane:nth-child(2) .who"), "main.gather.func1")
			testenv.Contains(t, b.text(".visit-details"), "until main.gather.func1")
			testenv.AtLeast(t, eval[int](b, "document.querySelectorAll('.woke').length"), 1, "lines from those that ended waits")
			b.shot("timeline")

			b.click(".lane:nth-child(2) .lane-track")
			b.until("document.querySelector('.lane:nth-child(2) .visit[aria-pressed=true]') && document.querySelector('.visit-details').textContent.includes('main.askAds')")
			testenv.Contains(t, b.text(".visit-details"), "waits for")
			testenv.EqualSlices(t, eval[[]string](b, "[...document.querySelectorAll('#panel-requests *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.className + ' ' + e.textContent)"), nil, "what is wider than the window")

			// Narrow visits are found by a click beside them, in a row as high as a finger needs.
			testenv.AtLeast(t, eval[float64](b, "document.querySelector('.lane-track').getBoundingClientRect().height"), 24, "height of a row")
			b.press("ArrowUp")
			b.until("document.activeElement.closest('.lane') === document.querySelector('.lane')")
			b.press("End")
			b.until("document.activeElement === document.querySelector('.lane .visit:last-child') && document.activeElement.getAttribute('aria-pressed') === 'true'")
			b.press("Home")
			b.until("document.activeElement === document.querySelector('.lane .visit')")

			b.click("[data-ref='request 1']")
			b.until("document.querySelector('[data-ref=\"request 1\"]').getAttribute('aria-pressed') === 'true' && document.querySelector('.request h2').textContent.includes(document.querySelector('.slowest li span:last-child').textContent)")
			b.click(".visit-details button")
			b.until("document.body.dataset.tab === 'graph' && document.querySelector('.node.selected')")
		})
	}
}

// A graph that has no requests has no such tab; the keys of tabs pass it by.
func TestNoTabWithoutRequests(t *testing.T) {
	b := open(t, shop(), look{still: true})
	if eval[bool](b, "document.querySelector('#tab-requests').checkVisibility()") {
		t.Error("there is a tab for requests")
	}
	b.press("7")
	testenv.Equal(t, eval[string](b, "document.body.dataset.tab"), "graph", "the tab after the key 7")
	b.focus("#tab-graph")
	b.press("ArrowLeft")
	b.until("document.body.dataset.tab === 'runtime'")
}
