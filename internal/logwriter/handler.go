package logwriter

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Default returns a Logger whose records are handled by slog.Default, as it is then, on a goroutine: for packages that
// log from tasks and loops and were given no Logger. Records beyond maxBuffered bytes that wait are dropped; slog.Default
// gets a warning with their number when it takes records again.
func Default() *slog.Logger { return defaultLogger }

var (
	defaultLogger = slog.New(beside{queue: records, to: func() slog.Handler { return slog.Default().Handler() }})
	records       = new(recordQueue)
)

// DrainDefault blocks until the records of Default are handled, but no longer than patience.
func DrainDefault(patience time.Duration) error {
	return within(patience, "the log", func() error { records.handle(); return nil })
}

// beside is a slog.Handler that hands records over to a queue.
type beside struct {
	queue *recordQueue
	to    func() slog.Handler // that handles the records
}

func (b beside) Enabled(ctx context.Context, level slog.Level) bool {
	return b.to().Enabled(ctx, level)
}

func (b beside) Handle(_ context.Context, r slog.Record) error {
	b.queue.put(r.Clone(), b.to)
	return nil
}

func (b beside) WithAttrs(attrs []slog.Attr) slog.Handler {
	return beside{b.queue, func() slog.Handler { return b.to().WithAttrs(attrs) }}
}

func (b beside) WithGroup(name string) slog.Handler {
	return beside{b.queue, func() slog.Handler { return b.to().WithGroup(name) }}
}

type queuedRecord struct {
	slog.Record
	to   func() slog.Handler
	size int // in bytes
}

// A recordQueue holds records until its goroutine, which exists only while there are any, has them handled.
type recordQueue struct {
	handling sync.Mutex // held while records are handled

	mu      sync.Mutex
	waiting []queuedRecord // guarded by mu
	size    int            // of all that wait, in bytes; guarded by mu
	dropped int            // records, since the last report; guarded by mu
	running bool           // a goroutine is about to handle the records; guarded by mu
}

// put never blocks.
func (q *recordQueue) put(r slog.Record, to func() slog.Handler) {
	size := sizeOf(r)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.size >= maxBuffered {
		q.dropped++
		return
	}
	q.waiting = append(q.waiting, queuedRecord{r, to, size})
	q.size += size
	if !q.running {
		q.running = true
		go q.handle()
	}
}

// sizeOf is about how many bytes a record takes. Memory behind pointers is not counted: Knot and the runtime log
// texts, numbers and errors.
func sizeOf(r slog.Record) int {
	const record, attr = 300, 60 // the structs and the first attributes; each further attribute
	size := record + len(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		size += attr + len(a.Key)
		if a.Value.Kind() == slog.KindString {
			size += len(a.Value.String())
		}
		return true
	})
	return size
}

// handle has all records handled that wait. It blocks as long as the handlers do.
func (q *recordQueue) handle() {
	q.handling.Lock()
	defer q.handling.Unlock()
	for {
		q.mu.Lock()
		batch, dropped := q.waiting, q.dropped
		q.waiting, q.size, q.dropped = nil, 0, 0
		if len(batch) == 0 {
			q.running = false
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		for _, r := range batch {
			r.to().Handle(context.Background(), r.Record)
		}
		if dropped > 0 {
			slog.New(batch[0].to()).Warn("capriccio: the log was written too slowly, records are lost", "records_lost", dropped)
		}
	}
}
