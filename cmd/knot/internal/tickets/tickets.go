// Package tickets has several servers share the keys of TLS session tickets, so that a client resumes at any of them. The keys are a
// file of a folder that the servers have in common, or in a shared storage. Its methods wait natively: they are for plain goroutines.
//
//	key: made (for later) ─ ahead ─→ encrypts ─ period ─→ decrypts only ─ keep × period ─→ gone
//
// A key that begins more than a period from now was made by a clock that is wrong, or is right while ours is wrong. It decrypts only,
// and the next rotation drops the oldest such key: neither clock holds up the rotation of the other servers, nor takes all their keys.
package tickets

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/sharedstore"
)

const (
	// Period is for how long a key encrypts tickets.
	Period = 12 * time.Hour
	// keep is how many keys decrypt after they have encrypted: crypto/tls takes no ticket that is older than a week, but who has one
	// key reads sessions of that time.
	keep = 2
	// ahead is how long before its use a key is made, for the others to read it: several times every, and more than clocks differ by.
	ahead = 10 * time.Minute
	// every is how often the keys are read.
	every = time.Minute
	// patience is how long the folder may take.
	patience = 20 * time.Second

	name = "knot/session-tickets.json"
)

// A key of the file.
type key struct {
	Secret [32]byte  `json:"secret"`
	From   time.Time `json:"from"` // it encrypts from then on
}

// Keys are those of a folder. Made by New.
type Keys struct {
	storage certmagic.Storage
	Close   func() // ends connections
	log     *slog.Logger
	now     func() time.Time
	all     []key // of goroutine Run, or before it
	failing bool
	odd     bool // a key was late when they were last read
}

// New makes Keys of a folder, or of the shared storage at a URL.
func New(where string, log *slog.Logger) (*Keys, error) {
	k := &Keys{storage: &certmagic.FileStorage{Path: where}, Close: func() {}, log: log, now: time.Now}
	if strings.Contains(where, "://") {
		shared, err := sharedstore.New(where, slog.New(slog.DiscardHandler)) // refresh says what is wrong
		if err != nil {
			return nil, err
		}
		k.storage, k.Close = shared, shared.Close
	}
	return k, nil
}

// Run sets the keys of config, now and whenever they change, until ctx ends.
func (k *Keys) Run(ctx context.Context, config *tls.Config) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		k.refresh(ctx, config)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// refresh reads the keys, makes the ones due, and sets them. While the folder can't be used, the keys of before go on, and new
// ones are of this server alone.
func (k *Keys) refresh(ctx context.Context, config *tls.Config) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := k.share(limited)
	if ctx.Err() != nil {
		return
	}
	switch {
	case err != nil && !k.failing:
		k.log.Warn("knot: the keys of session tickets can't be shared; this server goes on with its own", "error", err)
	case err == nil && k.failing:
		k.log.Info("knot: the keys of session tickets are shared again")
	}
	if k.failing = err != nil; k.failing {
		k.all, _ = rotated(k.all, k.now())
	}
	config.SetSessionTicketKeys(inOrder(k.all, k.now()))
}

// share reads the keys of the folder, and writes them if one was due.
func (k *Keys) share(ctx context.Context) error {
	all, err := k.load(ctx)
	if err != nil {
		return err
	}
	odd := slices.ContainsFunc(all, func(one key) bool { return one.isLate(k.now()) })
	if odd && !k.odd {
		k.log.Warn("knot: a key of session tickets begins far in the future, and encrypts none; the clock of this server, or of one that shares the keys, is wrong")
	}
	k.odd = odd
	if _, due := rotated(all, k.now()); !due {
		k.all = all
		return nil
	}
	if err := k.storage.Lock(ctx, name); err != nil {
		return err
	}
	defer k.storage.Unlock(context.WithoutCancel(ctx), name)
	if all, err = k.load(ctx); err != nil { // another server may have been here
		return err
	}
	all, due := rotated(all, k.now())
	if due {
		text, err := json.Marshal(all)
		if err != nil {
			return err
		}
		if err := k.storage.Store(ctx, name, text); err != nil {
			return err
		}
	}
	k.all = all
	return nil
}

// load reads the keys. Without a file there are none.
func (k *Keys) load(ctx context.Context) (all []key, err error) {
	text, err := k.storage.Load(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		if err = json.Unmarshal(text, &all); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	return all, err
}

// isLate reports whether k begins more than a period from now.
func (k key) isLate(now time.Time) bool { return k.From.After(now.Add(Period)) }

// rotated adds a key if one is due, and drops keys that are too old, or late; due: it has added one. The newest is last.
func rotated(all []key, now time.Time) (next []key, due bool) {
	next = slices.SortedFunc(slices.Values(all), func(a, b key) int { return a.From.Compare(b.From) })
	var late []key
	if i := slices.IndexFunc(next, func(k key) bool { return k.isLate(now) }); i >= 0 {
		next, late = next[:i:i], next[i:]
	}
	from := now
	if len(next) > 0 {
		from = next[len(next)-1].From.Add(Period)
	}
	if due = !from.After(now.Add(ahead)); due {
		fresh := key{From: from}
		if from.Before(now) { // no server was there for long
			fresh.From = now
		}
		rand.Read(fresh.Secret[:])
		next = append(next, fresh)
		late = late[min(1, len(late)):]
	}
	next = next[max(0, len(next)-keep-2):] // besides those: the one that encrypts, and the next one
	return append(next, late...), due
}

// inOrder are the secrets, the one that encrypts first.
func inOrder(all []key, now time.Time) (secrets [][32]byte) {
	order := slices.SortedStableFunc(slices.Values(all), func(a, b key) int {
		if later := a.From.After(now); later != b.From.After(now) { // not in use yet
			if later {
				return 1
			}
			return -1
		}
		return cmp.Compare(b.From.UnixNano(), a.From.UnixNano())
	})
	for _, k := range order {
		secrets = append(secrets, k.Secret)
	}
	return secrets
}
