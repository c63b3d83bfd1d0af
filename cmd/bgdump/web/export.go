package web

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphview/draw"
	"github.com/capriccio-go/capriccio/internal/graphview/export"
	"github.com/capriccio-go/capriccio/internal/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/graphview/tables"
)

// A format is one in which what is shown can be taken away.
type format struct {
	ending string
	kind   string
	write  func(s *bgraph.Snapshot, w io.Writer, params func(string) string) error
}

var formats = map[string]format{
	"dump": {"bgraph", "application/octet-stream", func(s *bgraph.Snapshot, w io.Writer, _ func(string) string) error { return s.Encode(w) }},
	"json": {"json", "application/json", func(s *bgraph.Snapshot, w io.Writer, _ func(string) string) error { return export.WriteJSON(w, s) }},
	"pprof": {"pb.gz", "application/octet-stream", func(s *bgraph.Snapshot, w io.Writer, _ func(string) string) error {
		return export.WriteProfile(w, s)
	}},
	"text": {"txt", "text/plain; charset=utf-8", func(s *bgraph.Snapshot, w io.Writer, _ func(string) string) error {
		return tables.WriteText(w, s, tables.Options{})
	}},
	"dot": {"dot", "text/plain; charset=utf-8", func(s *bgraph.Snapshot, w io.Writer, params func(string) string) error {
		return draw.WriteDOT(w, s, draw.Options{Color: params("color"), Findings: lint.Find(s)})
	}},
	"svg": {"svg", "image/svg+xml", func(s *bgraph.Snapshot, w io.Writer, params func(string) string) error {
		return draw.WriteSVG(w, s, draw.Options{Color: params("color"), Findings: lint.Find(s)})
	}},
	"folded": {"folded", "text/plain; charset=utf-8", func(s *bgraph.Snapshot, w io.Writer, params func(string) string) error {
		return export.WriteFolded(w, s, cmp.Or(params("metric"), "cpu"))
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
	if err := f.write(v.shown, &content, params.Get); err != nil {
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
