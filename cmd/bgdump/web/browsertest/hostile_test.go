package browsertest

import (
	"fmt"
	"testing"

	"github.com/capriccio-go/capriccio/cmd/bgdump/web/internal/sample"
)

// A name that is more than text would be an element, an attribute or a script.
func TestNamesAreText(t *testing.T) {
	src := &ticking{Program: sample.Hostile()}
	b := open(t, src, look{still: true})
	inert := func(where string) {
		t.Helper()
		if eval[bool](b, "window.stolen !== undefined") {
			t.Fatalf("%s: a name was run", where)
		}
		if n := eval[int](b, "document.querySelectorAll('img, script:not([src=\"app.js\"]), svg[onload], [onerror], [onload], [href^=\"javascript\"], iframe, object, embed').length"); n != 0 {
			t.Fatalf("%s: %d elements came from names", where, n)
		}
	}
	b.until("document.querySelectorAll('.node').length === 8")
	if got := b.text("#program"); got != `<img src=x onerror="window.stolen=1">` {
		t.Errorf("the program is called %q; want the name as it is", got)
	}
	inert("graph")
	for i := range 8 {
		eval[bool](b, fmt.Sprintf("document.querySelectorAll('.node')[%d].click() === undefined", i))
		eval[bool](b, fmt.Sprintf("document.querySelectorAll('.node')[%d].dispatchEvent(new PointerEvent('pointerenter'))", i))
		inert("details of a node")
	}
	for i := range 8 {
		eval[bool](b, fmt.Sprintf("document.querySelectorAll('.edge')[%d].dispatchEvent(new MouseEvent('click', {bubbles: true}))", i))
		eval[bool](b, fmt.Sprintf("document.querySelectorAll('.edge')[%d].dispatchEvent(new PointerEvent('pointerenter'))", i))
		inert("details of an edge")
	}
	for i, view := range []string{"nodes", "edges", "flame", "findings", "runtime"} {
		b.press(fmt.Sprint(i + 2))
		b.until(fmt.Sprintf("document.querySelector('#panel-%s').checkVisibility() && document.querySelector('#panel-%s').textContent.includes('onerror')", view, view))
		inert(view)
		b.shot(view)
	}
	b = open(t, src, look{still: true, hash: "#focus=<img src=x onerror=window.stolen=7>&tab=<script>&node=\"><img>"})
	if got := eval[string](b, "document.querySelector('#focus').value"); got != "<img src=x onerror=window.stolen=7>" {
		t.Errorf("the filter is %q; want that of the address", got)
	}
	inert("address")
}
