package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"
)

// A protocol carries out commands of memcached's text protocol (doc/protocol.txt of
// memcached). It has scratch space that one connection uses at a time.
type protocol struct {
	fields [][]byte
	data   []byte
	long   []byte // a line that the reader has no room for
}

// errQuit ends a connection.
var errQuit = errors.New("the connection is to end")

const version = "1.6.0-capriccio"

// maxKey is how long a key may be, in bytes.
const maxKey = 250

// command reads one command and answers it. An error ends the connection.
func (p *protocol) command(s *store, r *bufio.Reader, w *bufio.Writer) error {
	line, err := r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		line, err = p.readLong(r, line)
	}
	if err == bufio.ErrBufferFull {
		w.WriteString("CLIENT_ERROR line too long\r\n")
		return errQuit
	}
	if err != nil {
		return err
	}
	p.fields = p.fields[:0]
	for field := range bytes.FieldsFuncSeq(line, separates) {
		p.fields = append(p.fields, field)
	}
	if len(p.fields) == 0 {
		w.WriteString("ERROR\r\n")
		return nil
	}
	args := p.fields[1:]
	switch name := string(p.fields[0]); name {
	case "get", "gets":
		return p.get(s, w, args, name == "gets", nil)
	case "gat", "gats":
		if len(args) < 2 {
			w.WriteString("ERROR\r\n")
			return nil
		}
		at, ok := s.expiry(args[0])
		if !ok {
			w.WriteString("CLIENT_ERROR invalid exptime argument\r\n")
			return nil
		}
		return p.get(s, w, args[1:], name == "gats", &at)
	case "set", "add", "replace", "append", "prepend", "cas":
		return p.write(s, r, w, name, args)
	case "quit":
		return errQuit
	default:
		quiet := false
		if name != "delete" || len(args) > 1 { // else it is a key
			args, quiet = noreply(args)
		}
		if answer := p.simple(s, w, name, args); !quiet {
			w.WriteString(answer)
		}
	}
	return nil
}

// separates reports whether c stands between words. Other white space, U+3000 say, may be in a key.
func separates(c rune) bool { return c == ' ' || c == '\r' || c == '\n' }

// maxGet is how long a get or gets may be, in bytes: clients ask for all keys that they want in one line.
const maxGet = 1 << 20

// readLong reads the rest of a line that begins with begun. ErrBufferFull: it is longer than its command may be.
func (p *protocol) readLong(r *bufio.Reader, begun []byte) (line []byte, err error) {
	if !bytes.HasPrefix(begun, []byte("get ")) && !bytes.HasPrefix(begun, []byte("gets ")) {
		return nil, bufio.ErrBufferFull
	}
	p.long = append(p.long[:0], begun...)
	for err = bufio.ErrBufferFull; err == bufio.ErrBufferFull && len(p.long) < maxGet; {
		line, err = r.ReadSlice('\n')
		p.long = append(p.long, line...)
	}
	return p.long, err
}

// noreply cuts the word off that asks for no answer.
func noreply(args [][]byte) ([][]byte, bool) {
	if n := len(args); n > 0 && string(args[n-1]) == "noreply" {
		return args[:n-1], true
	}
	return args, false
}

// get answers with the items that are there, and lets them live until at if that is not nil.
func (p *protocol) get(s *store, w *bufio.Writer, keys [][]byte, withCAS bool, at *time.Time) error {
	if len(keys) == 0 {
		w.WriteString("ERROR\r\n")
		return nil
	}
	for _, key := range keys {
		if len(key) > maxKey {
			w.WriteString("CLIENT_ERROR bad command line format\r\n")
			return nil
		}
		value, flags, cas, ok := s.get(key, p.data[:0], at)
		p.data = value
		if !ok {
			continue
		}
		head := append(w.AvailableBuffer(), "VALUE "...)
		head = append(append(head, key...), ' ')
		head = append(strconv.AppendUint(head, uint64(flags), 10), ' ')
		head = strconv.AppendInt(head, int64(len(value)), 10)
		if withCAS {
			head = strconv.AppendUint(append(head, ' '), cas, 10)
		}
		w.Write(append(head, "\r\n"...))
		w.Write(value)
		if _, err := w.WriteString("\r\n"); err != nil {
			return err
		}
	}
	_, err := w.WriteString("END\r\n")
	return err
}

// write carries out the commands that come with data.
func (p *protocol) write(s *store, r *bufio.Reader, w *bufio.Writer, name string, args [][]byte) error {
	args, quiet := noreply(args)
	want := 4
	if name == "cas" {
		want = 5
	}
	if len(args) != want {
		w.WriteString("ERROR\r\n")
		return nil
	}
	flags, err1 := strconv.ParseUint(string(args[1]), 10, 32)
	at, ok := s.expiry(args[2])
	size, err2 := strconv.ParseInt(string(args[3]), 10, 32)
	var cas uint64
	var err3 error
	if want == 5 {
		cas, err3 = strconv.ParseUint(string(args[4]), 10, 64)
	}
	if err1 != nil || err2 != nil || err3 != nil || !ok || size < 0 || len(args[0]) > maxKey {
		w.WriteString("CLIENT_ERROR bad command line format\r\n")
		if err2 == nil && size >= 0 { // the data would be taken for a command
			return skip(r, w, size+2)
		}
		return errQuit
	}
	if size > int64(s.largest) {
		if name == "set" {
			s.remove(args[0]) // what was there before is not true any more
		}
		if !quiet {
			w.WriteString("SERVER_ERROR object too large for cache\r\n")
		}
		return skip(r, w, size+2)
	}
	if err := answerFirst(r, w, size+2); err != nil {
		return err
	}
	key := string(args[0]) // the line goes with the next read
	value := make([]byte, size+2)
	if _, err := io.ReadFull(r, value); err != nil {
		return err
	}
	if string(value[size:]) != "\r\n" {
		w.WriteString("CLIENT_ERROR bad data chunk\r\n")
		return errQuit
	}
	answer := s.put(name, key, value[:size:size], uint32(flags), at, cas)
	if !quiet {
		w.WriteString(answer)
	}
	return nil
}

// answerFirst sends what has been answered so far if the next n bytes are not all there: the client may send them
// only then.
func answerFirst(r *bufio.Reader, w *bufio.Writer, n int64) error {
	if int64(r.Buffered()) >= n {
		return nil
	}
	return w.Flush()
}

// skip drops n bytes.
func skip(r *bufio.Reader, w *bufio.Writer, n int64) error {
	if err := answerFirst(r, w, n); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, r, n)
	return err
}

// simple carries out the commands without data, and returns the answer.
func (p *protocol) simple(s *store, w *bufio.Writer, name string, args [][]byte) string {
	switch {
	case name == "delete" && (len(args) == 1 || len(args) == 2 && string(args[1]) == "0"):
		if s.remove(args[0]) {
			return "DELETED\r\n"
		}
		return "NOT_FOUND\r\n"
	case (name == "incr" || name == "decr") && len(args) == 2:
		by, err := strconv.ParseUint(string(args[1]), 10, 64)
		if err != nil {
			return "CLIENT_ERROR invalid numeric delta argument\r\n"
		}
		return s.add(args[0], by, name == "decr")
	case name == "touch" && len(args) == 2:
		at, ok := s.expiry(args[1])
		if !ok {
			return "CLIENT_ERROR invalid exptime argument\r\n"
		}
		if s.touch(args[0], at) {
			return "TOUCHED\r\n"
		}
		return "NOT_FOUND\r\n"
	case name == "flush_all" && len(args) <= 1:
		var delay int64
		if len(args) == 1 {
			var err error
			if delay, err = strconv.ParseInt(string(args[0]), 10, 32); err != nil || delay < 0 {
				return "CLIENT_ERROR bad command line format\r\n"
			}
		}
		s.flush(time.Duration(delay) * time.Second)
		return "OK\r\n"
	case name == "verbosity" && len(args) <= 1:
		return "OK\r\n"
	case name == "version" && len(args) == 0:
		return "VERSION " + version + "\r\n"
	case name == "stats" && len(args) == 0:
		t := s.totals()
		fmt.Fprintf(w, "STAT pid %d\r\nSTAT version %s\r\nSTAT uptime %d\r\n", os.Getpid(), version, int64(t.uptime.Seconds()))
		fmt.Fprintf(w, "STAT curr_connections %d\r\nSTAT total_connections %d\r\n", t.open, t.opened)
		fmt.Fprintf(w, "STAT cmd_get %d\r\nSTAT cmd_set %d\r\nSTAT get_hits %d\r\nSTAT get_misses %d\r\n", t.gets, t.sets, t.hits, t.gets-t.hits)
		fmt.Fprintf(w, "STAT curr_items %d\r\nSTAT bytes %d\r\nSTAT limit_maxbytes %d\r\nSTAT evictions %d\r\n", t.items, t.bytes, s.limit, t.evicted)
		return "END\r\n"
	}
	return "ERROR\r\n"
}

// never is when an item expires that does not.
var never = time.Unix(math.MaxInt32<<8, 0)

// expiry reads an exptime: 0 is never, up to 30 days are from now, more is a time of Unix, below
// 0 is at once.
func (s *store) expiry(text []byte) (time.Time, bool) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	switch {
	case err != nil:
		return time.Time{}, false
	case n == 0:
		return never, true
	case n < 0:
		return time.Time{}, true
	case n <= 30*24*60*60:
		return s.now().Add(time.Duration(n) * time.Second), true
	}
	return time.Unix(min(n, never.Unix()), 0), true
}
