package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/knot"
)

// A siteLog is the access log of a site.
type siteLog struct {
	name   string
	format knot.LogFormat
	to     *knot.AccessLog // set when it is opened, before the site serves
}

// addLog gives a site an access log of its own. It is opened when the site is to be served, and not to check it.
func (b *built) addLog(set *settings, s *site.Site, c *config.Site, wrong *mistakes) {
	format, known := logFormats[cmp.Or(c.LogFormat, set.formatName)]
	if !known && c.LogFormat != "" { // else -log-format is told
		wrong.add("log-format", fmt.Errorf("%q; want combined, common or json", c.LogFormat))
	}
	switch {
	case c.Log == "" && c.LogFormat != "":
		wrong.add("log-format", errors.New("the site has no log of its own; want log too"))
		return
	case c.Log == "":
		return
	case c.Log == "-":
		wrong.add("log", errors.New("the standard output is for log at the top level; want a file"))
		return
	}
	if info, err := os.Stat(c.Log); err == nil && !info.Mode().IsRegular() {
		wrong.add("log", fmt.Errorf("%s is not a regular file", c.Log))
	}
	_, err := os.Stat(filepath.Dir(c.Log))
	wrong.add("log", err)
	l := &siteLog{name: c.Log, format: format}
	b.logs = append(b.logs, l)
	s.Prepare = append(s.Prepare, func(x *knot.Ctx) { x.LogTo(l.to) })
}

// openLogs opens the logs that are not open yet.
func (r *running) openLogs(logs []*siteLog, errorLog *slog.Logger) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range logs {
		file := r.logs[l.name]
		if file == nil {
			var err error
			if file, err = openLog(l.name, nil, errorLog); err != nil {
				return err
			}
			if r.logs == nil {
				r.logs = make(map[string]*logFile)
			}
			r.logs[l.name] = file
		}
		l.to = knot.NewAccessLog(file.Writer, l.format)
	}
	return nil
}

// reopenLogs opens the logs of sites anew, after they were renamed, and closes those of sites that were removed by an earlier
// reload and serve nothing any more.
func (r *running) reopenLogs(errorLog *slog.Logger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = slices.DeleteFunc(r.before, (*built).over)
	for name, file := range r.logs {
		if !slices.ContainsFunc(append(slices.Clone(r.before), r.now.Load()), func(b *built) bool {
			return slices.ContainsFunc(b.logs, func(l *siteLog) bool { return l.name == name })
		}) {
			delete(r.logs, name)
			file.retire(errorLog)
			continue
		}
		if err := file.reopen(); err != nil {
			errorLog.Error("knot: the access log of a site can't be opened anew; the old file stays in use", "error", err)
		}
	}
}

// closeLogs writes what is left of the logs of sites.
func (r *running) closeLogs() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, file := range r.logs {
		err = errors.Join(err, file.close())
	}
	return err
}

// linesLost is how many lines were lost of the access logs that are open.
func (r *running) linesLost() uint64 {
	n := r.parts.logs.dropped()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, file := range r.logs {
		n += file.Dropped()
	}
	return n
}
