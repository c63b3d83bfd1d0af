// Package compression reads what a configuration says about the compression of backends' responses.
package compression

import (
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/knot/compress"
)

// A Config is a table site.proxy.compress.
type Config struct {
	Types   []string `toml:"types"`
	Codings []string `toml:"codings"`
	Min     string   `toml:"min"`
	Memory  string   `toml:"memory"`
}

// Options are what the table says, and what is wrong with it. size reads sizes, as "64MB"; that of "" is 0.
func (c *Config) Options(size func(text string) (int64, error)) (o compress.Options, wrong []site.Fault) {
	note := site.NoteIn(&wrong)
	note("types", (&compress.Options{Types: c.Types}).Validate())
	note("codings", (&compress.Options{Codings: c.Codings}).Validate())
	min, err := size(c.Min)
	note("min", err)
	o = compress.Options{Types: c.Types, Codings: c.Codings, Min: int(min)}
	o.Memory, err = size(c.Memory)
	note("memory", err)
	return o, wrong
}
