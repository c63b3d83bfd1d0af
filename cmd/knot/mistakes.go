package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
)

// A mistake is something that is wrong with the value of a key.
type mistake struct {
	key string // path below the table that the mistake is in, as proxy.1.tls.ca
	err error
}

// mistakes are all mistakes of one table.
type mistakes []mistake

// add adds a mistake of that key for each of the errors that are joined in err, which may be nil.
func (m *mistakes) add(key string, err error) {
	for _, one := range each(err) {
		*m = append(*m, mistake{key, fmt.Errorf("%s: %w", key, one)})
	}
}

// each returns the errors that are joined in err.
func each(err error) (all []error) {
	many, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return slices.DeleteFunc([]error{err}, func(err error) bool { return err == nil })
	}
	for _, one := range many.Unwrap() {
		all = append(all, each(one)...)
	}
	return all
}

// within adds the mistakes of the table at key, which is inside of the table of m.
func (m *mistakes) within(key string, of mistakes) {
	for _, one := range of {
		*m = append(*m, mistake{key + "." + one.key, fmt.Errorf("%s.%w", key, one.err)})
	}
}

// tables adds the faults of the tables of that name, by their index.
func (m *mistakes) tables(name string, faults map[int][]site.Fault) {
	for _, i := range slices.Sorted(maps.Keys(faults)) {
		m.faults(fmt.Sprint(name, ".", i+1), faults[i])
	}
}

// faults adds the faults of the table at key.
func (m *mistakes) faults(key string, all []site.Fault) {
	var of mistakes
	for _, f := range all {
		of.add(f.Key, f.Err)
	}
	m.within(key, of)
}

// ofSite is the error about a mistake of the site with that index.
func (set *settings) ofSite(i int, m mistake) error { return set.ofTable("site", i, m) }

// ofTable is the error about a mistake of the table with that name and index.
func (set *settings) ofTable(table string, i int, m mistake) error {
	if set.config == "" {
		return m.err
	}
	path := m.key
	if set.lines.Of(table+".1") != (config.Place{}) {
		path = fmt.Sprintf("%s.%d.%s", table, i+1, m.key)
	}
	place := cmp.Or(set.lines.Of(path), config.Place{File: set.config})
	return fmt.Errorf("%s: %s %d: %w", place, table, i+1, m.err)
}
