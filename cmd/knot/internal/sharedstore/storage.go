// Package sharedstore keeps what certmagic keeps, accounts, keys and certificates, in a store that several servers share: Redis, S3 or
// Consul. Its methods wait natively: they are for plain goroutines, or tasks in task.Offload.
package sharedstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
)

const (
	// patience is how long the store may take for a call. A handshake may wait for it.
	patience = 2 * time.Second
	// foldersPatience is that of calls for whole folders, for which no handshake waits. S3 lists a thousand keys at a time.
	foldersPatience = 20 * time.Second
	// pause is how long the store is left alone after it has failed: handshakes of that time do not wait.
	pause = time.Second
	// retry is how often calls of [Patient] try again.
	retry = 5 * time.Second
	// mostBytes limits a value: Consul takes no more. A chain of certificates has some 5 KB.
	mostBytes = 512 << 10
	// maxRefused limits the refusals that are logged: some stores name the key in each.
	maxRefused = 5
	// connections limits those at a time.
	connections = 8

	// Unavailable is in the text of errors that the store, the network, or the end of a context caused.
	Unavailable = "the shared storage can't be used: "
)

// values are what a store keeps by keys, which have no slash at their ends.
type values interface {
	get(ctx context.Context, key string) (value []byte, modified time.Time, err error) // errMissing: there is none
	put(ctx context.Context, key string, value []byte) error
	remove(ctx context.Context, key string) error                                 // and all that is below key
	list(ctx context.Context, folder string, most int) (keys []string, err error) // -1: all of the folder
}

// leases are locks that end unless their holders renew them. A token stands for a holder; "": another server has the lock.
type leases interface {
	acquire(ctx context.Context, name string, lease time.Duration) (token string, err error)
	renew(ctx context.Context, name, token string, lease time.Duration) (next string, err error) // takes a lock again that is lost, if it is free
	release(ctx context.Context, name, token string) error
}

// A backend is a store. Its calls try nothing twice.
type backend interface {
	values
	leases
	close()
}

var errMissing = errors.New("there is no such key")

// errRefused is what a store has answered instead of doing it. Without it, it could not be asked.
type errRefused struct{ error }

// A scheme of URLs is for a kind of store, and the build tag that it needs, if any.
type scheme struct{ kind, tag string }

var schemes = map[string]scheme{
	"redis": {kind: "Redis"}, "rediss": {kind: "Redis"}, "unix": {kind: "Redis"},
	"s3": {"S3", "knot_storage_s3"}, "consul": {"Consul", "knot_storage_consul"}, "consul+https": {"Consul", "knot_storage_consul"},
}

// openers make the backends of the kinds that are compiled in.
var openers = map[string]func(*url.URL) (backend, error){"Redis": openRedis}

// A Storage is a certmagic.Storage. Made by New; safe from anywhere.
type Storage struct {
	store backend
	kind  string // as the log calls it
	log   *slog.Logger
	now   func() time.Time
	after func(time.Duration) <-chan time.Time
	lease time.Duration

	mu      sync.Mutex
	held    map[string]*lock // guarded by mu
	pausing time.Time        // until when the store is left alone; guarded by mu
	failure error            // of the last call, if the store could not be reached; guarded by mu
	refused []string         // what the store has answered instead of doing it, as the log has it; guarded by mu
	closed  bool             // guarded by mu
}

// New makes a Storage of the store at a URL. It does not connect yet. Errors do not have the URL, which may have a password.
func New(text string, log *slog.Logger) (*Storage, error) {
	u, err := url.Parse(text)
	if err != nil {
		u = new(url.URL)
	}
	of, known := schemes[u.Scheme]
	open := openers[of.kind]
	switch {
	case !known:
		return nil, errors.New("want the URL of a Redis, as redis://:PASSWORD@10.0.0.7:6379/0, of a bucket of S3, as s3://BUCKET/PREFIX, or of a Consul, as consul://127.0.0.1:8500/PREFIX")
	case open == nil:
		return nil, fmt.Errorf("%s is not in this knot; build one that has it: go build -tags %s ./cmd/knot", of.kind, of.tag)
	}
	store, err := open(u)
	if err != nil {
		return nil, err
	}
	return &Storage{store: store, kind: of.kind, log: log, now: time.Now, after: time.After, lease: lease, held: make(map[string]*lock)}, nil
}

var errClosed = fmt.Errorf(Unavailable+"the server does without it: %w", context.Canceled)

// Close gives the locks back and ends the connections. Calls after it fail with context.Canceled.
func (s *Storage) Close() {
	s.mu.Lock()
	held := slices.Collect(maps.Keys(s.held))
	s.mu.Unlock()
	for _, name := range held {
		s.Unlock(context.Background(), name)
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.store.close()
}

type patientKey struct{}

// Patient is ctx, whose calls wait for a store that can't be used until ctx ends: certmagic does not try these again.
func Patient(ctx context.Context) context.Context { return context.WithValue(ctx, patientKey{}, true) }

// errUnavailable says why the store did not do what a call wanted. It wraps nothing: without its socket fs.ErrNotExist would look like
// that of a certificate, and certmagic would get another.
type errUnavailable struct{ error }

func (e errUnavailable) Error() string { return Unavailable + e.error.Error() }

// call has f ask the store, which may take that long.
func (s *Storage) call(ctx context.Context, patience time.Duration, f func(context.Context) error) error {
	for {
		err := s.once(ctx, patience, f)
		if ctx.Value(patientKey{}) == nil || !errors.As(err, new(errUnavailable)) {
			return err
		}
		select {
		case <-s.after(retry):
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}

// ended says that ctx has ended.
func ended(ctx context.Context) error { return fmt.Errorf(Unavailable+"%w", ctx.Err()) }

func (s *Storage) once(ctx context.Context, patience time.Duration, f func(context.Context) error) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	if err := s.isPausing(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := f(limited)
	if err != nil && ctx.Err() != nil {
		return ended(ctx)
	}
	return s.note(err)
}

func (s *Storage) isPausing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed
	case s.failure != nil && s.now().Before(s.pausing):
		return errUnavailable{s.failure}
	}
	return nil
}

// note has the log tell when the store goes away, comes back, or refuses something with a text that the log does not have.
func (s *Storage) note(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed && err != nil:
		return errClosed
	case errors.As(err, new(errRefused)):
		if text := err.Error(); !slices.Contains(s.refused, text) && len(s.refused) < maxRefused {
			s.log.Warn("knot: "+s.kind+" refuses to keep certificates or to give them", "error", text)
			s.refused = append(s.refused, text)
		}
		return errUnavailable{err}
	case err != nil:
		if s.failure == nil {
			s.log.Warn("knot: "+s.kind+" can't be asked for certificates; Knot serves the ones that it has", "error", err)
		}
		s.failure, s.refused, s.pausing = err, nil, s.now().Add(pause)
		return errUnavailable{err}
	case s.failure != nil:
		s.failure = nil
		s.log.Info("knot: " + s.kind + " is asked for certificates again")
	}
	return nil
}

// clean is a key without slashes at its ends, as certmagic's folders take it.
func clean(key string) string { return strings.Trim(path.Clean("/"+key), "/") }

func notExist(key string) error {
	return &fs.PathError{Op: "load from the shared storage", Path: key, Err: fs.ErrNotExist}
}

// Store implements certmagic.Storage.
func (s *Storage) Store(ctx context.Context, key string, value []byte) error {
	if len(value) > mostBytes {
		return fmt.Errorf("the value of %s has %d bytes; want %d at most", key, len(value), mostBytes)
	}
	return s.call(ctx, patience, func(ctx context.Context) error { return s.store.put(ctx, clean(key), value) })
}

// Load implements certmagic.Storage.
func (s *Storage) Load(ctx context.Context, key string) ([]byte, error) {
	value, _, err := s.load(ctx, key)
	return value, err
}

func (s *Storage) load(ctx context.Context, key string) (value []byte, modified time.Time, err error) {
	var odd error // no fault of the store
	err = s.call(ctx, patience, func(ctx context.Context) (err error) {
		value, modified, err = s.store.get(ctx, clean(key))
		switch {
		case err == errMissing:
			odd, err = notExist(key), nil
		case errors.As(err, new(errOdd)):
			odd, err = err, nil
		case err == nil && len(value) > mostBytes:
			odd = errOdd(key)
		}
		return err
	})
	if err = cmp.Or(err, odd); err != nil {
		return nil, modified, err
	}
	return value, modified, nil
}

// errOdd is the key of a value that something else has written.
type errOdd string

func (key errOdd) Error() string {
	return string(key) + " in the shared storage is not what knot has written there; delete it"
}

// Delete implements certmagic.Storage.
func (s *Storage) Delete(ctx context.Context, key string) error {
	return s.call(ctx, foldersPatience, func(ctx context.Context) error { return s.store.remove(ctx, clean(key)) })
}

// Exists implements certmagic.Storage.
func (s *Storage) Exists(ctx context.Context, key string) bool {
	_, err := s.Stat(ctx, key)
	return err == nil
}

// within are keys in a folder, at most that many; -1: all.
func (s *Storage) within(ctx context.Context, folder string, most int) (names []string, err error) {
	limit := patience
	if most < 0 {
		limit = foldersPatience
	}
	err = s.call(ctx, limit, func(ctx context.Context) (err error) {
		names, err = s.store.list(ctx, folder, most)
		return err
	})
	return names, err
}

// List implements certmagic.Storage. It has folders as well, like certmagic.FileStorage.
func (s *Storage) List(ctx context.Context, folder string, recursive bool) (keys []string, err error) {
	folder = clean(folder)
	names, err := s.within(ctx, folder, -1)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		_, err := s.Stat(ctx, folder)
		return nil, err
	}
	seen := make(map[string]bool)
	for _, name := range names {
		at := ""
		for part := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(name, folder), "/"), "/") {
			at = path.Join(at, part)
			seen[path.Join(folder, at)] = true
			if !recursive {
				break
			}
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// Stat implements certmagic.Storage.
func (s *Storage) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	value, modified, err := s.load(ctx, key)
	if err == nil {
		return certmagic.KeyInfo{Key: key, Modified: modified, Size: int64(len(value)), IsTerminal: true}, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		var names []string
		if names, err = s.within(ctx, clean(key), 1); err == nil && len(names) == 0 {
			err = notExist(key)
		}
	}
	return certmagic.KeyInfo{Key: key}, err
}
