package knot

import (
	"bytes"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/logwriter"
	"github.com/capriccio-go/capriccio/knot/internal/accesslog"
)

const (
	// logFlushAfter is how long a line may wait for others to be written with it.
	logFlushAfter = time.Second
	// logPatience is how long Close waits for the reader of the log.
	logPatience = 5 * time.Second
)

// LogFormat is the form of access log lines.
type LogFormat uint8

const (
	// LogCombined is the Combined Log Format of Apache and others.
	LogCombined LogFormat = iota
	// LogCommon is the Common Log Format: Combined without Referer and
	// User-Agent.
	LogCommon
	// LogJSON is an object in a line: time, client (if it has an address), user (if there is one), method, target, proto,
	// host, status, bytes of the body, referer and user_agent (if they were sent), and
	// duration_ms from the end of the request's head to the end of the answer, in
	// milliseconds.
	LogJSON
)

// AccessLog writes one line per request. Lines are buffered, up to 1 MB, and written in the
// background, by a goroutine that exists only while there is something to
// write. Everything that comes from the client is escaped. Lines that get lost, because
// w fails or is too slow, are reported in the server's error log, once a minute at most.
// Safe from anywhere.
type AccessLog struct {
	format LogFormat
	out    *logwriter.Writer
	server atomic.Pointer[Server] // that has recorded last; atomic
}

// NewAccessLog writes to w, one Write at a time. The caller closes w after
// Close.
func NewAccessLog(w io.Writer, format LogFormat) *AccessLog {
	l := &AccessLog{format: format}
	var own bool
	if l.out, own = w.(*logwriter.Writer); !own {
		l.out = logwriter.New(w, "knot: the access log", func() *slog.Logger {
			if s := l.server.Load(); s != nil {
				return s.errorLog()
			}
			return nil
		})
	}
	return l
}

// LogTo has the line about this request go to l in place of Server.AccessLog. The time in a line of LogJSON is from this call on,
// unless the server is Timed. A request that is refused before a handler sees it is known to Server.ErrorPage.
func (x *Ctx) LogTo(l *AccessLog) {
	x.log = l
	if x.began == 0 && l.format == LogJSON {
		x.began = x.srv.clock.Elapsed()
	}
}

// record takes up the request that has just been answered.
func (l *AccessLog) record(x *Ctx) {
	if l.server.Load() != x.srv {
		l.server.Store(x.srv)
	}
	now := x.srv.clock.Stamp()
	e := accesslog.Entry{
		Client: x.clientText(), User: x.user, ID: x.id, Line: x.requestLine(), Framed: x.c.framed(),
		Head: &x.head, Text: x.headBytes(), Status: x.resp.status, Bytes: x.resp.written, Took: -1,
	}
	if x.began != 0 {
		e.Took = x.srv.clock.Elapsed() - x.began
	}
	l.out.Append(logFlushAfter, func(b []byte) []byte {
		if l.format == LogJSON {
			return e.AppendJSON(b, now)
		}
		return e.AppendCombined(b, now, l.format == LogCommon)
	})
}

// requestLine is the first line of the request as it came, however wrong.
func (x *Ctx) requestLine() []byte {
	from, to := x.headAt+x.head.Start, x.w
	if x.head.Size > 0 {
		to = x.bodyAt
	}
	line := x.in[min(from, to):to]
	if i := bytes.IndexAny(line, "\r\n"); i >= 0 {
		line = line[:i]
	}
	return line
}

// Flush writes what is buffered. It blocks the calling thread as w does: in a
// task, call it through task.Offload.
func (l *AccessLog) Flush() error { return l.out.Flush() }

// Dropped is how many lines were lost because w has failed or was too slow.
func (l *AccessLog) Dropped() uint64 { return l.out.Dropped() }

// Close writes what is buffered, waiting for w for 5 seconds at most, and returns the first error there
// was. Call it when no server uses the log any more.
func (l *AccessLog) Close() error { return l.out.Drain(logPatience) }
