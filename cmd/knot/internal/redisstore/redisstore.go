// Package redisstore keeps what certmagic keeps, accounts, keys and certificates, in a Redis that several servers share. Its methods
// wait natively: they are for plain goroutines, or tasks in task.Offload.
//
//	{PREFIX}:values     hash: key → time of the change in ms, new line, value
//	{PREFIX}:names      sorted set of the same keys, by which folders are listed
//	{PREFIX}:lock:NAME  token of the holder; expires unless it is renewed
package redisstore

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
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/redis/go-redis/v9"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/redisclient"
	"github.com/capriccio-go/capriccio/internal/logwriter"
)

const (
	// patience is how long Redis may take for a call. A handshake may wait for it.
	patience = 2 * time.Second
	// pause is how long Redis is left alone after it has failed: handshakes of that time do not wait.
	pause = time.Second
	// retry is how often calls of [Patient] try again.
	retry = 5 * time.Second
	// mostBytes limits a value. A chain of certificates has some 5 KB.
	mostBytes = 1 << 20
	// connections limits those at a time.
	connections = 8

	// Unavailable is in the text of errors that Redis, the network, or the end of a context caused.
	Unavailable = "the Redis can't be used: "
)

// The scripts have the hash and the set as keys.
var (
	store = redis.NewScript(`
local t = redis.call('TIME')
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000)) .. '\n' .. ARGV[2])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
return 1`)
	remove = redis.NewScript(`
local names = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[2], ARGV[3])
names[#names + 1] = ARGV[1]
for _, name in ipairs(names) do
	redis.call('HDEL', KEYS[1], name)
	redis.call('ZREM', KEYS[2], name)
end
return 1`)
)

// A Storage is a certmagic.Storage. Made by New; safe from anywhere.
type Storage struct {
	client                *redis.Client
	values, names, prefix string
	log                   *slog.Logger
	now                   func() time.Time
	after                 func(time.Duration) <-chan time.Time
	lease                 time.Duration

	mu      sync.Mutex
	held    map[string]*lock // guarded by mu
	pausing time.Time        // until when Redis is left alone; guarded by mu
	failure error            // of the last call, if Redis could not be reached; guarded by mu
	refusal string           // what Redis has answered instead of doing it, as the log has it; guarded by mu
	closed  bool             // guarded by mu
}

// New makes a Storage in the Redis at a URL as redisclient has it, which may have ?prefix=NAME for the names of keys.
func New(text string, log *slog.Logger) (*Storage, error) {
	prefix := "knot"
	if u, err := url.Parse(text); err == nil && u.Query().Has("prefix") {
		query := u.Query()
		prefix = cmp.Or(query.Get("prefix"), prefix)
		query.Del("prefix")
		u.RawQuery = query.Encode()
		text = u.String()
	}
	client, err := redisclient.New(text, connections, patience)
	if err != nil {
		return nil, err
	}
	prefix = "{" + prefix + "}:" // one node of a cluster has them all
	return &Storage{
		client: client, values: prefix + "values", names: prefix + "names", prefix: prefix, log: log,
		now: time.Now, after: time.After, lease: lease, held: make(map[string]*lock),
	}, nil
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
	s.client.Close()
}

type patientKey struct{}

// Patient is ctx, whose calls wait for a Redis that can't be used until ctx ends: certmagic does not try these again.
func Patient(ctx context.Context) context.Context { return context.WithValue(ctx, patientKey{}, true) }

// errUnavailable says why Redis did not do what a call wanted. It wraps nothing: without its socket fs.ErrNotExist would look like
// that of a certificate, and certmagic would get another.
type errUnavailable struct{ error }

func (e errUnavailable) Error() string { return Unavailable + e.error.Error() }

// call has f ask Redis.
func (s *Storage) call(ctx context.Context, f func(context.Context) error) error {
	for {
		err := s.once(ctx, f)
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

func (s *Storage) once(ctx context.Context, f func(context.Context) error) error {
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

// note has the log tell when Redis goes away, comes back, or refuses something that it did not refuse last.
func (s *Storage) note(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var reply redis.Error
	switch {
	case s.closed && err != nil:
		return errClosed
	case errors.As(err, &reply):
		if s.refusal != err.Error() {
			s.log.Warn("knot: Redis refuses to keep certificates or to give them", "error", logwriter.OneLine(err.Error()))
		}
		s.refusal = err.Error()
		return errUnavailable{err}
	case err != nil:
		if s.failure == nil {
			s.log.Warn("knot: Redis can't be asked for certificates; Knot serves the ones that it has", "error", logwriter.OneLine(err.Error()))
		}
		s.failure, s.refusal, s.pausing = err, "", s.now().Add(pause)
		return errUnavailable{err}
	case s.failure != nil:
		s.failure = nil
		s.log.Info("knot: Redis is asked for certificates again")
	}
	return nil
}

// clean is a key without slashes at its ends, as certmagic's folders take it.
func clean(key string) string { return strings.Trim(path.Clean("/"+key), "/") }

// below are the bounds of the keys in a folder.
func below(folder string) (from, to string) {
	if folder == "" {
		return "-", "+"
	}
	return "[" + folder + "/", "(" + folder + "0" // behind the slash comes 0
}

func notExist(key string) error {
	return &fs.PathError{Op: "load from Redis", Path: key, Err: fs.ErrNotExist}
}

// Store implements certmagic.Storage.
func (s *Storage) Store(ctx context.Context, key string, value []byte) error {
	if len(value) > mostBytes {
		return fmt.Errorf("the value of %s has %d bytes; want %d at most", key, len(value), mostBytes)
	}
	return s.call(ctx, func(ctx context.Context) error {
		return store.Run(ctx, s.client, []string{s.values, s.names}, clean(key), value).Err()
	})
}

// Load implements certmagic.Storage.
func (s *Storage) Load(ctx context.Context, key string) ([]byte, error) {
	value, _, err := s.load(ctx, key)
	return value, err
}

func (s *Storage) load(ctx context.Context, key string) (value []byte, modified time.Time, err error) {
	var text string
	var found bool
	err = s.call(ctx, func(ctx context.Context) (err error) {
		text, err = s.client.HGet(ctx, s.values, clean(key)).Result()
		if found = err == nil; errors.Is(err, redis.Nil) {
			err = nil
		}
		return err
	})
	switch {
	case err != nil:
		return nil, modified, err
	case !found:
		return nil, modified, notExist(key)
	}
	at, rest, ok := strings.Cut(text, "\n")
	ms, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil || len(rest) > mostBytes {
		return nil, modified, fmt.Errorf("%s in %s of Redis is not what knot has written there; delete it", key, s.values)
	}
	return []byte(rest), time.UnixMilli(ms), nil
}

// Delete implements certmagic.Storage.
func (s *Storage) Delete(ctx context.Context, key string) error {
	key = clean(key)
	from, to := below(key)
	return s.call(ctx, func(ctx context.Context) error {
		return remove.Run(ctx, s.client, []string{s.values, s.names}, key, from, to).Err()
	})
}

// Exists implements certmagic.Storage.
func (s *Storage) Exists(ctx context.Context, key string) bool {
	_, err := s.Stat(ctx, key)
	return err == nil
}

// within are keys in a folder, at most that many; -1: all.
func (s *Storage) within(ctx context.Context, folder string, most int64) (names []string, err error) {
	from, to := below(folder)
	err = s.call(ctx, func(ctx context.Context) (err error) {
		names, err = s.client.ZRangeArgs(ctx, redis.ZRangeArgs{Key: s.names, Start: from, Stop: to, ByLex: true, Count: most}).Result()
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
