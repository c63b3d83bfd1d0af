package site

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/contenttype"
	"github.com/capriccio-go/capriccio/internal/logwriter"
	"github.com/capriccio-go/capriccio/internal/regular"
)

const (
	// maxErrorPage is the size of an error page, in bytes: they are kept in memory.
	maxErrorPage = 256 << 10
	// errorPageAge is after how long an error page that is used is read again.
	errorPageAge = time.Second
)

// ErrorPages are files of a site that are sent as the pages of errors. They are kept in memory and
// read again while they are used, at most once a second and by one goroutine for each, so a change
// shows from the second use on.
// Links in them are followed as far as they stay below the root. Safe from anywhere.
type ErrorPages struct {
	root  string
	pages map[string]*errorPage // by "404", "4xx" or "default"; fixed
	log   *slog.Logger
}

type errorPage struct {
	name    string // below the root, without a slash before it
	ctype   string
	content atomic.Pointer[[]byte] // atomic
	read    atomic.Int64           // when it was read last, in nanoseconds since 1970; atomic
	reading atomic.Bool            // a goroutine reads it, which may take a disk any time; atomic
	failing atomic.Bool            // it could not be read; atomic
}

// OpenErrorPages reads the pages: files maps statuses to paths below root. A status is a number from
// 400 to 599, "4xx", "5xx", or "default" for all that are not named.
func OpenErrorPages(root string, files map[string]string, log *slog.Logger) (*ErrorPages, error) {
	if log == nil {
		log = logwriter.Default()
	}
	p := &ErrorPages{root: root, pages: make(map[string]*errorPage), log: log}
	var errs []error
	for _, status := range slices.Sorted(maps.Keys(files)) {
		path := files[status]
		if !errorStatus(status) {
			errs = append(errs, fmt.Errorf("%q is not the status of an error; want 400 to 599, 4xx, 5xx or default", status))
			continue
		}
		page := &errorPage{name: strings.TrimPrefix(path, "/"), ctype: contenttype.Of(path)}
		page.read.Store(time.Now().UnixNano())
		if err := page.load(root); err != nil {
			errs = append(errs, fmt.Errorf("error page for %s: %w", status, err))
		}
		p.pages[status] = page
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return p, nil
}

func errorStatus(text string) bool {
	switch text {
	case "4xx", "5xx", "default":
		return true
	}
	n, err := strconv.Atoi(text)
	return err == nil && n >= 400 && n <= 599 && len(text) == 3
}

// load reads the page. It blocks.
func (e *errorPage) load(root string) error {
	folder, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer folder.Close()
	file, err := regular.Open(folder.OpenFile, e.name)
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxErrorPage+1))
	if err != nil {
		return err
	}
	if len(text) > maxErrorPage {
		return errors.New(e.name + " is larger than 256 KB")
	}
	e.content.Store(&text)
	return nil
}

// page returns the page for a status; it never blocks.
func (p *ErrorPages) page(status int) (ctype string, content []byte) {
	e := p.pages[strconv.Itoa(status)]
	if e == nil {
		e = p.pages[strconv.Itoa(status/100)+"xx"]
	}
	if e == nil {
		if e = p.pages["default"]; e == nil || status < 400 {
			return "", nil
		}
	}
	now, last := time.Now().UnixNano(), e.read.Load()
	due := now-last > int64(errorPageAge) || now < last // the clock has been set back
	if due && !e.reading.Load() && e.read.CompareAndSwap(last, now) {
		e.reading.Store(true) // no other request gets here within a second
		go p.refresh(e)
	}
	return e.ctype, *e.content.Load()
}

// refresh reads a page again; the old one stays in use if that fails.
func (p *ErrorPages) refresh(e *errorPage) {
	defer e.reading.Store(false)
	err := e.load(p.root)
	if failed := err != nil; e.failing.Swap(failed) != failed && failed {
		p.log.Error("knot: an error page can't be read any more; the old one is still sent", "page", e.name, "error", err)
	}
}
