package knot

import (
	"bytes"
	"io"
	"log/slog"
	"strconv"
	"strings"
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
	// LogJSON is an object in a line: time, client, user (if there is one), method, target, proto,
	// host, status, bytes of the body, referer and user_agent (if they were sent), and
	// duration_ms from the end of the request's head to the end of the answer, in
	// milliseconds.
	LogJSON
)

// AccessLog writes one line per request. Lines are buffered and written in the
// background, by a goroutine that exists only while there is something to
// write. Everything that comes from the client is escaped. Lines that get lost, because
// w fails or is too slow, are reported in the server's error log, once a minute at most.
// Safe from anywhere.
type AccessLog struct {
	w      io.Writer
	format LogFormat

	writing sync.Mutex // held while w is written to
	torn    bool       // the last Write that failed has left a part of a line; guarded by writing

	mu      sync.Mutex
	buf     []byte      // guarded by mu
	spare   []byte      // guarded by mu
	timer   *time.Timer // guarded by mu
	armed   bool        // timer is running; guarded by mu
	urgent  bool        // ... without delay; guarded by mu
	dropped uint64      // lines for which there was no room; guarded by mu
	failed  uint64      // lines lost in writes that failed; guarded by mu
	err     error       // first failed write; guarded by mu

	errorLog *slog.Logger // of the server that has recorded last; guarded by mu
	trouble  trouble      // guarded by writing

	now func() time.Time // fixed
}

// logTroubleEvery is how often lost lines are reported while more get lost.
const logTroubleEvery = time.Minute

// trouble is what has been said about lost lines. Guarded by its owner's lock.
//
//	fine ──lines lost──▶ told ──none lost for once──▶ fine
//	                     told ──more lost, a minute later──▶ told again
type trouble struct {
	told    time.Time // when lost lines were last reported; zero: fine
	failed  uint64    // lines lost in writes that failed, since then
	dropped uint64    // value of AccessLog.dropped that has been reported
}

// NewAccessLog writes to w, one Write at a time. The caller closes w after
// Close.
func NewAccessLog(w io.Writer, format LogFormat) *AccessLog {
	return &AccessLog{w: w, format: format, now: time.Now}
}

// record takes up the request that has just been answered.
func (l *AccessLog) record(x *Ctx) {
	host, now := x.clientText(), x.srv.clock.stamp()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errorLog = x.srv.errorLog()
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
	if l.format == LogJSON {
		return x.appendJSONLine(b, host, now)
	}
	b = append(append(b, host...), " - "...)
	if x.user == "" {
		b = append(b, '-')
	} else {
		b = appendLogText(b, viewBytes(strings.ReplaceAll(x.user, " ", "_"))) // a space would end it
	}
	b = append(b, ' ')
	b = append(b, now.log...)
	b = append(b, ` "`...)
	line := x.requestLine()
	if before, ok := bytes.CutSuffix(line, []byte("HTTP/1.1")); ok && x.c.stream != nil {
		b = append(appendLogText(b, before), "HTTP/2.0"...)
	} else {
		b = appendLogText(b, line)
	}
	b = append(b, `" `...)
	b = strconv.AppendInt(b, int64(x.resp.status), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, x.resp.written, 10)
	if l.format == LogCombined {
		for _, name := range [...]string{"referer", "user-agent"} {
			b = append(b, ` "`...)
			value, ok := x.head.Find(x.headBytes(), name)
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
	from, to := x.headAt+x.head.Start, x.w
	if x.head.Size > 0 {
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
	var lost uint64 // lines
	if len(full) > 0 {
		lost, err = l.write(full)
		l.report(lost, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed += lost
	if cap(full) <= 2*logFlushSize {
		l.spare = full[:0]
	}
	if l.err == nil {
		l.err = err
	}
	return l.err
}

// write writes lines, and returns how many are lost. The caller holds writing.
func (l *AccessLog) write(lines []byte) (lost uint64, err error) {
	n := 0
	if l.torn { // the next line is not to be lost as well
		if _, err = l.w.Write([]byte{'\n'}); err == nil {
			l.torn = false
		}
	}
	if err == nil {
		n, err = l.w.Write(lines)
	}
	if err == nil && n < len(lines) {
		err = io.ErrShortWrite
	}
	if err == nil {
		return 0, nil
	}
	n = min(max(n, 0), len(lines))
	l.torn = l.torn || n > 0 && lines[n-1] != '\n'
	return uint64(bytes.Count(lines[n:], []byte{'\n'})), err
}

// report puts a line into the error log when access log lines begin to get lost, at most once
// a minute while more do, and when they are written again. lost are the lines that a Write that
// failed with err has left. The caller holds writing.
func (l *AccessLog) report(lost uint64, err error) {
	l.mu.Lock()
	dropped, log := l.dropped, l.errorLog
	l.mu.Unlock()
	t := &l.trouble
	t.failed += lost
	now, slow := l.now(), dropped-t.dropped
	switch {
	case log == nil:
	case err == nil && slow == 0 && !t.told.IsZero():
		log.Info("knot: the access log is written again", "lines_lost", t.failed)
		*t = trouble{dropped: dropped}
	case err == nil && slow == 0, !t.told.IsZero() && now.Sub(t.told) < logTroubleEvery:
	case err != nil:
		log.Error("knot: the access log can't be written, lines are lost", "error", err, "lines_lost", t.failed+slow)
		*t = trouble{told: now, dropped: dropped}
	default:
		log.Warn("knot: the access log is written too slowly, lines are lost", "lines_lost", t.failed+slow)
		*t = trouble{told: now, dropped: dropped}
	}
}

// Dropped is how many lines were lost because w has failed or was too slow.
func (l *AccessLog) Dropped() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped + l.failed
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
