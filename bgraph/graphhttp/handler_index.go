//go:build linux

package graphhttp

import (
	"bytes"
	"html/template"
	"io"
	"net/url"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphview/tables"
	"github.com/capriccio-go/capriccio/internal/words"
)

// The page of links. All links are queries only, so that they lead to where the page
// came from, whatever path that is.
var indexPage = template.Must(template.New("index").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{.Program}} – blocking graph</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5em; color: #222; background: #fff }
h1 { font-size: 1.3em; margin: 0 }
pre { font: 13px/1.4 ui-monospace, monospace; overflow-x: auto }
dl { display: grid; grid-template-columns: max-content auto; gap: 0 1em; margin: 1em 0 }
dd { margin: 0 }
input, select, button { font: inherit }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } a { color: #8bf } }
</style>
</head>
<body>
<h1>{{.Program}}</h1>
<p>Where its tasks wait, and what they do in between. Process {{.PID}}, the last {{.Span}}.</p>
<dl>
{{range .Links}}<dt><a href="{{.Query}}">{{.Name}}</a></dt><dd>{{.About}}</dd>
{{end}}</dl>
<form>
<label>What happened in the next <input name="seconds" type="number" min="1" max="{{.Longest}}" size="4" value="{{.Get "seconds"}}"> seconds</label>
<label>only <input name="focus" size="16" placeholder="regular expression" value="{{.Get "focus"}}"></label>
<label>but not <input name="ignore" size="16" value="{{.Get "ignore"}}"></label>
<label>by <select name="sort"><option value="">tasks</option>{{$sort := .Get "sort"}}{{range .Columns}}<option{{if eq . $sort}} selected{{end}}>{{.}}</option>{{end}}</select></label>
<label>as <select name="format"><option value="">this page</option>{{range .Links}}<option>{{.Name}}</option>{{end}}</select></label>
<button>Show</button>
</form>
<pre>{{.Table}}</pre>
</body>
</html>
`))

type indexData struct {
	Program string
	PID     int
	Span    string
	Links   []indexLink
	Longest int
	Columns []string
	Table   string
	query   url.Values
}

type indexLink struct{ Name, About, Query string }

// Get is a parameter of the query that led to the page.
func (d *indexData) Get(name string) string { return d.query.Get(name) }

func (q *query) writeIndex(w io.Writer, s *bgraph.Snapshot) error {
	o := q.text
	if o.Limit == 0 {
		o.Limit = indexRows
	}
	var table bytes.Buffer
	if err := tables.WriteText(&table, s, o); err != nil {
		return err
	}
	d := &indexData{
		Program: words.Clean(s.Program.Name), PID: s.Program.PID, Span: s.Span.String(),
		Longest: longestDifference, Columns: tables.Columns(), Table: table.String(), query: q.values,
	}
	for i := range forms {
		link := url.Values{"format": {forms[i].name}}
		for _, name := range []string{"focus", "ignore"} {
			if v := q.values.Get(name); v != "" {
				link.Set(name, v)
			}
		}
		d.Links = append(d.Links, indexLink{forms[i].name, forms[i].about, "?" + link.Encode()})
	}
	return indexPage.Execute(w, d)
}
