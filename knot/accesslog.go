package knot

import (
	"bytes"
	"io"
	"strconv"
	"sync"
	"time"
)

const (
	// logFlushAfter is how long a line may wait in the buffer.
	logFlushAfter = time.Second
	// logFlushSize makes the buffer be written at once, in bytes.
	logFlushSize = 64 << 10
	// logMaxSize bounds the buffer, in bytes: lines beyond are dropped and
	// counted. A slow disk must not stop the server.
	logMaxSize = 1 << 20
	// logMaxText bounds each text that comes from the client, in bytes.
	logMaxText = 1024
)

// LogFormat is the form of access log lines.
type LogFormat uint8

const (
	// LogCombined is the Combined Log Format of Apache and others.
	LogCombined LogFormat = iota
	// LogCommon is the Common Log Format: Combined without Referer and
	// User-Agent.
	LogCommon
)

// AccessLog writes one line per request. Lines are buffered and written in the
// background, by a goroutine that exists only while there is something to
// write. Everything that comes from the client is escaped. Safe from anywhere.
type AccessLog struct {
	w      io.Writer
	format LogFormat

	writing sync.Mutex // held while w is written to

	mu      sync.Mutex
	buf     []byte      // guarded by mu
	spare   []byte      // guarded by mu
	timer   *time.Timer // guarded by mu
	armed   bool        // timer is running; guarded by mu
	urgent  bool        // ... without delay; guarded by mu
	dropped uint64      // guarded by mu
	err     error       // first failed write; guarded by mu
}

// NewAccessLog writes to w, one Write at a time. The caller closes w after
// Close.
func NewAccessLog(w io.Writer, format LogFormat) *AccessLog {
	return &AccessLog{w: w, format: format}
}

// record takes up the request that has just been answered.
func (l *AccessLog) record(x *Ctx) {
	host, now := x.c.remoteHost(), x.srv.clock.stamp()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.buf) >= logMaxSize {
		l.dropped++
		return
	}
	l.buf = l.line(l.buf, x, host, now)
	switch {
	case len(l.buf) >= logFlushSize && !l.urgent:
		l.arm(0)
		l.urgent = true
	case !l.armed:
		l.arm(logFlushAfter)
	}
}

// arm needs mu.
func (l *AccessLog) arm(after time.Duration) {
	l.armed = true
	if l.timer == nil {
		l.timer = time.AfterFunc(after, l.background)
	} else {
		l.timer.Reset(after)
	}
}

func (l *AccessLog) background() { l.Flush() }

func (l *AccessLog) line(b []byte, x *Ctx, host string, now *stamp) []byte {
	b = append(b, host...)
	b = append(b, " - - "...)
	b = append(b, now.log...)
	b = append(b, ` "`...)
	b = appendLogText(b, x.requestLine())
	b = append(b, `" `...)
	b = strconv.AppendInt(b, int64(x.resp.status), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, x.resp.written, 10)
	if l.format == LogCombined {
		for _, name := range [...]string{"referer", "user-agent"} {
			b = append(b, ` "`...)
			value, ok := x.head.find(x.headBytes(), name)
			if !ok {
				value = viewBytes("-")
			}
			b = appendLogText(b, value)
			b = append(b, '"')
		}
	}
	return append(b, '\n')
}

// requestLine is the first line of the request as it came, however wrong.
func (x *Ctx) requestLine() []byte {
	from, to := x.headAt+x.head.start, x.w
	if x.head.size > 0 {
		to = x.bodyAt
	}
	line := x.in[min(from, to):to]
	if i := bytes.IndexAny(line, "\r\n"); i >= 0 {
		line = line[:i]
	}
	if len(line) == 0 {
		return viewBytes("-")
	}
	return line
}

// appendLogText escapes what could end the field or the line, or upset a
// terminal.
func appendLogText(b, text []byte) []byte {
	if len(text) > logMaxText {
		text = text[:logMaxText]
	}
	for _, ch := range text {
		switch {
		case ch == '"' || ch == '\\':
			b = append(b, '\\', ch)
		case ch < 0x20 || ch >= 0x7f:
			b = append(b, '\\', 'x', lowerHex[ch>>4], lowerHex[ch&15])
		default:
			b = append(b, ch)
		}
	}
	return b
}

const lowerHex = "0123456789abcdef"

// Flush writes what is buffered. It blocks the calling thread as w does: in a
// task, call it through task.Offload.
func (l *AccessLog) Flush() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	full := l.buf
	l.buf, l.spare = l.spare[:0], nil
	l.armed, l.urgent = false, false
	l.mu.Unlock()
	var err error
	if len(full) > 0 {
		_, err = l.w.Write(full)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if cap(full) <= 2*logFlushSize {
		l.spare = full[:0]
	}
	if l.err == nil {
		l.err = err
	}
	return l.err
}

// Dropped is how many lines were lost because w was too slow.
func (l *AccessLog) Dropped() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// Close writes what is buffered and returns the first error there was. Call it
// when no server uses the log any more.
func (l *AccessLog) Close() error {
	l.mu.Lock()
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	return l.Flush()
}
