package config

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Lines maps the paths of keys and tables to their lines. In a path each table of an array has its number, as in
// site.1.proxy.2.tls.ca.
type Lines map[string]int

// Of returns the line of the key at path, or that of the innermost table around it that has one; 0: there is none.
func (l Lines) Of(path string) int {
	for path != "" && l[path] == 0 {
		path = path[:max(strings.LastIndexByte(path, '.'), 0)]
	}
	return l[path]
}

// linesOf finds the lines of text, which has no mistake in its grammar.
func linesOf(text []byte) Lines {
	lines, tables := make(Lines), make(map[string]int)
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
			if n := tables[path]; n > 0 {
				path += "." + strconv.Itoa(n)
			}
		}
		if e.Kind != unstable.KeyValue {
			table = path
		}
		lines[path] = 1 + bytes.Count(text[:offset], []byte("\n"))
	}
	return lines
}
