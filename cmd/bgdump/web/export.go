package web

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/capriccio-go/capriccio/internal/graphview/draw"
	"github.com/capriccio-go/capriccio/internal/graphview/export"
	"github.com/capriccio-go/capriccio/internal/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/graphview/tables"
)

// A format is one in which what is shown can be taken away.
type format struct {
	ending string
	kind   string
	write  func(v *view, w io.Writer, params func(string) string) error
}

var formats = map[string]format{
	"dump": {"bgraph", "application/octet-stream", func(v *view, w io.Writer, _ func(string) string) error { return v.shown.Encode(w) }},
	"json": {"json", "application/json", func(v *view, w io.Writer, _ func(string) string) error { return export.WriteJSON(w, v.shown) }},
	"pprof": {"pb.gz", "application/octet-stream", func(v *view, w io.Writer, _ func(string) string) error {
		return export.WriteProfile(w, v.shown)
	}},
	"text": {"txt", "text/plain; charset=utf-8", func(v *view, w io.Writer, _ func(string) string) error {
		return tables.WriteText(w, v.shown, tables.Options{Whole: v.whole})
	}},
	"dot": {"dot", "text/plain; charset=utf-8", func(v *view, w io.Writer, params func(string) string) error {
		return draw.WriteDOT(w, v.shown, draw.Options{Color: params("color"), Findings: lint.FindPart(v.whole, v.shown)})
	}},
	"svg": {"svg", "image/svg+xml", func(v *view, w io.Writer, params func(string) string) error {
		return draw.WriteSVG(w, v.shown, draw.Options{Color: params("color"), Findings: lint.FindPart(v.whole, v.shown)})
	}},
	"folded": {"folded", "text/plain; charset=utf-8", func(v *view, w io.Writer, params func(string) string) error {
		return export.WriteFolded(w, v.shown, cmp.Or(params("metric"), "cpu"))
	}},
}

// serveExport answers what is shown as a file to be saved.
func (p *Page) serveExport(w http.ResponseWriter, r *http.Request) {
	params := r.URL.Query()
	f, ok := formats[params.Get("format")]
	if !ok {
		fail(w, http.StatusBadRequest, fmt.Sprintf("format=%q; want dump, json, text, dot, svg, pprof or folded", clip(params.Get("format"))))
		return
	}
	v, err := p.view(r)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	var content bytes.Buffer
	if err := f.write(v, &content, params.Get); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	name := fileName(v.whole.Program.Name)
	if at := v.whole.Taken; !at.IsZero() { // else of a trace without a clock
		name += at.UTC().Format("-20060102T150405")
	}
	name += "." + f.ending
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	w.Write(content.Bytes())
}

// fileName keeps of a program's name what is harmless in the name of a file.
func fileName(program string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, shorten(program, 60))
	return cmp.Or(strings.Trim(name, "_"), "graph")
}
