package browsertest

import (
	"fmt"
	"testing"

	"github.com/capriccio-go/capriccio/cmd/bgdump/web/internal/sample"
	"github.com/capriccio-go/capriccio/internal/testenv"
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
	testenv.Equal(t, b.text("#program"), `<img src=x onerror="window.stolen=1">`, "the program is called")
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
	testenv.Equal(t, eval[string](b, "document.querySelector('#focus').value"), "<img src=x onerror=window.stolen=7>", "the filter")
	inert("address")
}
