package config

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// A Place is where something stands in a configuration.
type Place struct {
	File string // "": nowhere
	Line int    // 0: not known
}

// String is the file, with the line if that is known.
func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Lines maps the paths of keys and tables to their places. In a path each table of an array has its number, as in
// site.1.proxy.2.tls.ca.
type Lines map[string]Place

// Of returns the place of the key at path, or that of the innermost table around it that has one; the zero Place: there is none.
func (l Lines) Of(path string) Place {
	for path != "" && l[path] == (Place{}) {
		path = path[:max(strings.LastIndexByte(path, '.'), 0)]
	}
	return l[path]
}

// add takes up the places in text, the file with that name, which has no mistake in its grammar. tables are how many tables
// there are already, by their names.
func (l Lines) add(name string, text []byte, tables map[string]int) {
	table := "" // the path of the table that keys belong to
	var p unstable.Parser
	p.Reset(text)
	for p.NextExpression() {
		e := p.Expression()
		path, offset := table, 0
		if e.Kind != unstable.KeyValue {
			path = ""
		}
		for key := e.Key(); key.Next(); {
			if path != "" {
				path += "."
			}
			path += string(key.Node().Data)
			offset = int(key.Node().Raw.Offset)
			if e.Kind == unstable.ArrayTable && key.IsLast() {
				tables[path]++
			}
			if n := tables[path]; n > 0 && (e.Kind != unstable.KeyValue || table != "") {
				path += "." + strconv.Itoa(n)
			}
		}
		if e.Kind != unstable.KeyValue {
			table = path
		}
		l[path] = Place{name, 1 + bytes.Count(text[:offset], []byte("\n"))}
	}
}
