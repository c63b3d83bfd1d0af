// Package maintenance takes a site out of service while a file exists.
package maintenance

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/knot"
)

const (
	// lookAgain is for how long what was seen of the file counts.
	lookAgain = time.Second
	// defaultRetryAfter is when clients are told to come again.
	defaultRetryAfter = 5 * time.Minute
)

// A Config is a table [site.maintenance].
type Config struct {
	// File is what takes the site out of service while it exists; required.
	File string `toml:"file"`
	// Allow are clients that are served nevertheless: addresses, networks as "10.0.0.0/8", and "unix:" for clients on a Unix socket.
	Allow []string `toml:"allow"`
	// RetryAfter is when others may come again, as "5m"; "": 5 minutes.
	RetryAfter string `toml:"retry-after"`
}

// A Switch answers the requests to a site with 503 while its file exists. Safe from anywhere.
type Switch struct {
	file  string
	allow knot.Trust
	retry string // seconds
	log   *slog.Logger
	now   func() time.Time // for tests to change

	on      atomic.Bool  // atomic
	looked  atomic.Int64 // when the file was looked for last, in nanoseconds since 1970; atomic
	failing atomic.Bool  // it could not be; atomic
}

// New reads the table. wrong is what is wrong with it.
func New(c *Config, log *slog.Logger) (s *Switch, wrong []site.Fault) {
	s = &Switch{file: c.File, log: log, now: time.Now}
	note := site.NoteIn(&wrong)
	if c.File == "" {
		note("file", errors.New("say which file takes the site out of service while it exists"))
	} else if _, err := os.Stat(c.File); err == nil {
		s.on.Store(true) // for requests that come while the first one looks
	}
	var err error
	s.allow, err = knot.ParseTrust(c.Allow...)
	note("allow", err)
	retry := defaultRetryAfter
	if c.RetryAfter != "" {
		if retry, err = time.ParseDuration(c.RetryAfter); err != nil || retry < time.Second {
			note("retry-after", fmt.Errorf("%q is not a time of a second or more; want one like \"5m\"", c.RetryAfter))
		}
	}
	s.retry = strconv.FormatInt(int64(retry/time.Second), 10)
	return s, wrong
}

// Handle answers a request while the site is out of service. It may park.
func (s *Switch) Handle(x *knot.Ctx) (answered bool, err error) {
	s.look()
	if !s.on.Load() || s.allow.Names(x.ClientAddr()) {
		return false, nil
	}
	x.AddHeader("Retry-After", s.retry)
	x.AddHeader("Cache-Control", "no-store")
	return true, x.SendError(503)
}

// look looks for the file, if that was not done within the last second. It may park.
func (s *Switch) look() {
	now, last := s.now().UnixNano(), s.looked.Load()
	if now-last < int64(lookAgain) && now >= last || !s.looked.CompareAndSwap(last, now) { // another request looks
		return
	}
	_, err := aio.Stat(s.file)
	known := err == nil || errors.Is(err, fs.ErrNotExist)
	if known {
		s.on.Store(err == nil)
	}
	if s.failing.Swap(!known) == known && !known {
		s.log.Error("knot: the file of a maintenance switch can't be looked for; the site stays as it was", "file", s.file, "error", err)
	}
}
