package site

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/knot"
)

// DefaultListingMax is how many names a listing has at most.
const DefaultListingMax = 10_000

// list answers with the content of the folder: as JSON if the query says format=json or the client
// accepts application/json and not text/html, as a page otherwise. The query may say sort=name,
// sort=size or sort=time, and order=desc.
func (s *Site) list(x *knot.Ctx) error {
	if m := x.Method(); m != "GET" && m != "HEAD" {
		return knot.Status(404)
	}
	most := s.ListingMax
	if most <= 0 {
		most = DefaultListingMax
	}
	all, more, err := s.Files.List(x, most)
	if err != nil {
		return err
	}
	query, _ := url.ParseQuery(x.Query()) // what can be read of it
	l := listing{path: x.Path(), all: all, more: more, sort: query.Get("sort"), desc: query.Get("order") == "desc"}
	l.order()
	x.AddHeader("Vary", "Accept")
	if !sets(always(x, s.Headers), "Cache-Control") {
		x.AddHeader("Cache-Control", "no-cache")
	}
	accept := strings.ToLower(x.Header("Accept"))
	if query.Get("format") == "json" || strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html") {
		return x.Send(200, "application/json", l.json())
	}
	x.AddHeader("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	return x.Send(200, "text/html; charset=utf-8", l.html())
}

type listing struct {
	path string
	all  []knot.Listed
	more bool
	sort string
	desc bool
}

// order sorts folders before files.
func (l *listing) order() {
	slices.SortFunc(l.all, func(a, b knot.Listed) int {
		if a.Dir != b.Dir {
			if a.Dir {
				return -1
			}
			return 1
		}
		c := 0
		switch l.sort {
		case "size":
			c = cmp.Compare(a.Size, b.Size)
		case "time":
			c = a.Modified.Compare(b.Modified)
		}
		if c = cmp.Or(c, cmp.Compare(a.Name, b.Name)); l.desc {
			return -c
		}
		return c
	})
}

type listedJSON struct {
	Name     string    `json:"name"`
	Type     string    `json:"type"` // file or directory
	Size     *int64    `json:"size,omitempty"`
	Modified time.Time `json:"modified"`
}

func (l *listing) json() []byte {
	out := make([]listedJSON, len(l.all))
	for i := range l.all {
		one := &l.all[i]
		out[i] = listedJSON{one.Name, "file", &one.Size, one.Modified.UTC().Truncate(time.Second)}
		if one.Dir {
			out[i].Type, out[i].Size = "directory", nil
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err) // there is nothing in it that can't be encoded
	}
	return append(text, '\n')
}

func (l *listing) html() []byte {
	var b bytes.Buffer
	title := html.EscapeString("Index of " + l.path)
	fmt.Fprintf(&b, `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>%s</title>
<style>body { font: 16px/1.5 system-ui, sans-serif; margin: 2em } td, th { padding: 0 1em 0 0; text-align: left } td.n, th.n { text-align: right }</style>
<h1>%s</h1>
<table>
<tr><th>%s<th class="n">%s<th>%s
`, title, title, l.column("name", "Name"), l.column("size", "Size"), l.column("time", "Changed"))
	if l.path != "/" {
		b.WriteString("<tr><td><a href=\"../\">../</a><td><td>\n")
	}
	for i := range l.all {
		one := &l.all[i]
		name, size := one.Name, fmt.Sprint(one.Size)
		if one.Dir {
			name, size = name+"/", ""
		}
		href := "./" + url.PathEscape(one.Name)
		if one.Dir {
			href += "/"
		}
		fmt.Fprintf(&b, "<tr><td><a href=\"%s\">%s</a><td class=\"n\">%s<td>%s\n", html.EscapeString(href), html.EscapeString(name),
			size, one.Modified.UTC().Format("2006-01-02 15:04:05"))
	}
	b.WriteString("</table>\n")
	if l.more {
		fmt.Fprintf(&b, "<p>There are more than these %d.\n", len(l.all))
	}
	b.WriteString("</html>\n")
	return b.Bytes()
}

// column is the head of a column, which sorts by it, the other way round the second time.
func (l *listing) column(sort, title string) string {
	by := cmp.Or(l.sort, "name")
	if by == sort && !l.desc {
		sort += "&amp;order=desc"
	}
	return fmt.Sprintf(`<a href="?sort=%s">%s</a>`, sort, title)
}
