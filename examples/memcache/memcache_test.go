package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// talk has the protocol answer what a client says.
func talk(s *store, said string) string {
	var out bytes.Buffer
	r, w := bufio.NewReaderSize(strings.NewReader(said), maxLine), bufio.NewWriter(&out)
	var p protocol
	for p.command(s, r, w) == nil {
	}
	w.Flush()
	return out.String()
}

func TestCommands(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, c := range []struct{ said, answer string }{
		{"get a\r\n", "END\r\n"},
		{"set a 7 0 5\r\nhello\r\nget a\r\n", "STORED\r\nVALUE a 7 5\r\nhello\r\nEND\r\n"},
		{"set a 0 0 0\r\n\r\nget a\r\n", "STORED\r\nVALUE a 0 0\r\n\r\nEND\r\n"},
		{"set a 0 0 2 noreply\r\nhi\r\nget a b a\r\n", "VALUE a 0 2\r\nhi\r\nVALUE a 0 2\r\nhi\r\nEND\r\n"},
		{"set a 0 0 1\r\n1\r\nadd a 0 0 1\r\n2\r\nadd b 0 0 1\r\n3\r\nreplace c 0 0 1\r\n4\r\nreplace b 0 0 1\r\n5\r\nget a b\r\n",
			"STORED\r\nNOT_STORED\r\nSTORED\r\nNOT_STORED\r\nSTORED\r\nVALUE a 0 1\r\n1\r\nVALUE b 0 1\r\n5\r\nEND\r\n"},
		{"set a 3 0 1\r\nb\r\nappend a 0 0 1\r\nc\r\nprepend a 0 0 1\r\na\r\nappend x 0 0 1\r\nc\r\nget a\r\n",
			"STORED\r\nSTORED\r\nSTORED\r\nNOT_STORED\r\nVALUE a 3 3\r\nabc\r\nEND\r\n"},
		{"cas a 0 0 1 1\r\nx\r\nset a 0 0 1\r\na\r\ngets a\r\ncas a 0 0 1 1\r\nb\r\ncas a 0 0 1 1\r\nc\r\nget a\r\n",
			"NOT_FOUND\r\nSTORED\r\nVALUE a 0 1 1\r\na\r\nEND\r\nSTORED\r\nEXISTS\r\nVALUE a 0 1\r\nb\r\nEND\r\n"},
		{"delete a\r\nset a 0 0 1\r\na\r\ndelete a\r\nget a\r\n", "NOT_FOUND\r\nSTORED\r\nDELETED\r\nEND\r\n"},
		{"set noreply 0 0 1\r\na\r\ndelete noreply noreply\r\nget noreply\r\nset noreply 0 0 1 noreply\r\na\r\ndelete noreply\r\ndelete noreply 0 noreply\r\n",
			"STORED\r\nEND\r\nDELETED\r\n"},
		{"incr n 1\r\nset n 0 0 2\r\n10\r\nincr n 5\r\ndecr n 100\r\nincr n 18446744073709551615\r\nincr n 2\r\nincr n x\r\nset n 0 0 1\r\nx\r\nincr n 1\r\n",
			"NOT_FOUND\r\nSTORED\r\n15\r\n0\r\n18446744073709551615\r\n1\r\nCLIENT_ERROR invalid numeric delta argument\r\nSTORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n"},
		{"set a 0 -1 1\r\na\r\nget a\r\ntouch a 1\r\n", "STORED\r\nEND\r\nNOT_FOUND\r\n"},
		{"set a 0 1600000000 1\r\na\r\nget a\r\nset a 0 1800000000 1\r\na\r\ntouch a 0\r\ngat -1 a\r\nget a\r\n",
			"STORED\r\nEND\r\nSTORED\r\nTOUCHED\r\nVALUE a 0 1\r\na\r\nEND\r\nEND\r\n"},
		{"set a 0 0 1\r\na\r\nflush_all\r\nget a\r\nset a 0 0 1\r\na\r\nget a\r\n", "STORED\r\nOK\r\nEND\r\nSTORED\r\nVALUE a 0 1\r\na\r\nEND\r\n"},
		{"version\r\nverbosity 1\r\nquit\r\nversion\r\n", "VERSION " + version + "\r\nOK\r\n"},
		{"\r\nfoo\r\nget\r\nset a\r\ndelete\r\n", strings.Repeat("ERROR\r\n", 5)},
		{"set a x 0 3\r\nget\r\nversion\r\n", "CLIENT_ERROR bad command line format\r\nVERSION " + version + "\r\n"},
		{"set a 0 0 -1\r\nversion\r\n", "CLIENT_ERROR bad command line format\r\n"},
		{"set a 0 0 3\r\ntoo long\r\n", "CLIENT_ERROR bad data chunk\r\n"},
		{"set a 0 0 1\r\na\r\nset a 0 0 101\r\n" + strings.Repeat("x", 101) + "\r\nget a\r\n",
			"STORED\r\nSERVER_ERROR object too large for cache\r\nEND\r\n"},
		{"set a 0 0 1\r\na\r\nadd a 0 0 101\r\n" + strings.Repeat("x", 101) + "\r\nget a\r\n",
			"STORED\r\nSERVER_ERROR object too large for cache\r\nVALUE a 0 1\r\na\r\nEND\r\n"},
		{"set a 0 0 1\r\na\r\nreplace a 0 0 101\r\n" + strings.Repeat("x", 101) + "\r\nget a\r\n",
			"STORED\r\nSERVER_ERROR object too large for cache\r\nVALUE a 0 1\r\na\r\nEND\r\n"},
		{"set a 0 0 1\r\na\r\nappend a 0 0 101\r\n" + strings.Repeat("x", 101) + "\r\nget a\r\n",
			"STORED\r\nSERVER_ERROR object too large for cache\r\nVALUE a 0 1\r\na\r\nEND\r\n"},
		{"set a 0 0 1\r\na\r\ncas a 0 0 101 1\r\n" + strings.Repeat("x", 101) + "\r\nget a\r\n",
			"STORED\r\nSERVER_ERROR object too large for cache\r\nVALUE a 0 1\r\na\r\nEND\r\n"},
		{"set a 0 0 101 noreply\r\n" + strings.Repeat("x", 101) + "\r\nget a\r\n", "END\r\n"},
		{"set a 0 0 100\r\n" + strings.Repeat("x", 100) + "\r\nappend a 0 0 1\r\ny\r\n", "STORED\r\nSERVER_ERROR object too large for cache\r\n"},
		{"get " + strings.Repeat("k", 251) + "\r\n", "CLIENT_ERROR bad command line format\r\n"},
		{"set a\u3000b 0 0 1\r\nx\r\nget a\u3000b a\r\n", "STORED\r\nVALUE a\u3000b 0 1\r\nx\r\nEND\r\n"},
		{"set a 0 0 1\r\nx\r\ngets" + strings.Repeat(" other", maxLine) + " a\r\nget a\r\n", "STORED\r\nVALUE a 0 1 1\r\nx\r\nEND\r\nVALUE a 0 1\r\nx\r\nEND\r\n"},
		{"get " + strings.Repeat("k", maxLine) + "\r\nget b\r\n", "CLIENT_ERROR bad command line format\r\nEND\r\n"},
		{"set " + strings.Repeat("k", maxLine) + "\r\nversion\r\n", "CLIENT_ERROR line too long\r\n"},
		{"get " + strings.Repeat("k ", maxGet) + "\r\nversion\r\n", "CLIENT_ERROR line too long\r\n"},
	} {
		s := newStore(1<<20, 100, func() time.Time { return now })
		testenv.Equal(t, talk(s, c.said), c.answer, "%.200q", c.said)
	}
}

func TestItemsExpireAndAreFlushedInTime(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := newStore(1<<20, 100, func() time.Time { return now })
	talk(s, "set short 0 10 1\r\na\r\nset long 0 100 1\r\nb\r\nflush_all 50\r\n")
	now = now.Add(10 * time.Second)
	testenv.Equal(t, talk(s, "get short long\r\n"), "VALUE long 0 1\r\nb\r\nEND\r\n", "after 10 s")
	now = now.Add(40 * time.Second)
	if got := talk(s, "get long\r\nset new 0 0 1\r\nc\r\nget new\r\n"); got != "END\r\nSTORED\r\nVALUE new 0 1\r\nc\r\nEND\r\n" {
		t.Errorf("after 50 s: %q", got)
	}
	// What a flush has let go does not come back with the next one, whether it has been asked for or not.
	talk(s, "set old 0 0 1\r\nd\r\nflush_all 10\r\n")
	now = now.Add(20 * time.Second)
	testenv.Equal(t, talk(s, "flush_all 100\r\nget old new\r\n"), "OK\r\nEND\r\n", "after a flush that came and one that will come")
}

func TestWhatWasUsedLeastRecentlyGoes(t *testing.T) {
	s := newStore(64*10*(overhead+110), 200, time.Now)
	for i := range 20_000 {
		talk(s, fmt.Sprintf("set k%d 0 0 100\r\n%s\r\nget k0\r\n", i, strings.Repeat("x", 100)))
	}
	total := s.totals()
	if total.bytes > s.limit || total.items < 300 || total.evicted < 19_000 || int64(total.evicted)+total.items != 20_000 {
		t.Errorf("%+v with a limit of %d", total, s.limit)
	}
	if got := talk(s, "get k0 k1\r\n"); !strings.HasPrefix(got, "VALUE k0 ") || strings.Contains(got, "k1") {
		t.Errorf("%.30q; want k0, which was used all the time, and not k1", got)
	}
}

func TestLargeItemsFillTheMemoryBeforeOneGoes(t *testing.T) {
	s := newStore(64<<20, 1<<20, time.Now)
	value := strings.Repeat("x", 1<<20)
	for i := range 40 { // of the 63 that there is room for
		talk(s, fmt.Sprintf("set k%d 0 0 %d\r\n%s\r\n", i, len(value), value))
	}
	testenv.AtLeast(t, s.totals().items, 32, "of 40 items are left, though they take two thirds of the memory")
	for i := range 40 {
		talk(s, fmt.Sprintf("set l%d 0 0 %d\r\n%s\r\n", i, len(value), value))
	}
	testenv.AtMost(t, s.totals().bytes, s.limit, "bytes with a limit of %d", s.limit)
}

// What has been answered is sent before the data of a later command, which may come long after.
func TestAnswersDoNotWaitForData(t *testing.T) {
	for _, c := range []struct{ ask, want string }{
		{"version\r\nset a 0 0 1\r\n", "VERSION " + version + "\r\n"},
		{"set a 0 0 101\r\n", "SERVER_ERROR object too large for cache\r\n"},
		{"set a x 0 3\r\n", "CLIENT_ERROR bad command line format\r\n"},
	} {
		t.Run(c.ask, func(t *testing.T) {
			mine, its := net.Pipe()
			defer mine.Close()
			go func() {
				defer its.Close()
				p, r, w := protocol{}, bufio.NewReader(its), bufio.NewWriter(its)
				for s := newStore(10_000, 100, time.Now); p.command(s, r, w) == nil; {
				}
			}()
			testenv.Need(io.WriteString(mine, c.ask))(t)
			got := make([]byte, len(c.want))
			mine.SetReadDeadline(time.Now().Add(5 * time.Second))
			if _, err := io.ReadFull(mine, got); err != nil || string(got) != c.want {
				t.Errorf("before the data came %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// A talker is a client that has sent all at once.
type talker struct {
	io.Reader
	io.Writer
	deadlines int
}

func (t *talker) SetReadDeadline(time.Time) error { t.deadlines++; return nil }

func TestClientsThatSendWithoutAPauseAreNotIdle(t *testing.T) {
	s := &server{store: newStore(10_000, 100, time.Now), idle: time.Hour}
	c := &talker{Reader: strings.NewReader("version\r\nversion\r\nversion\r\n"), Writer: io.Discard}
	if err := s.converse(c, pool.Get().(*buffers)); err != nil || c.deadlines != 2 {
		t.Errorf("%v, and %d deadlines; want one before each command but the first, for which wait has set it", err, c.deadlines)
	}
}

func TestServerOverAConnection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	err := capriccio.Run(context.Background(), func(context.Context) error {
		ln, err := netpoll.Listen("unix", path)
		if err != nil {
			return err
		}
		s := &server{store: newStore(64<<20, 1<<20, time.Now)}
		served := task.Go(func() {
			testenv.ErrorIs(t, s.serve(ln), net.ErrClosed)
		})
		task.Offload(func() {
			done := make(chan bool)
			for i := range 10 {
				go func() { client(t, path, i); done <- true }()
			}
			for range 10 {
				<-done
			}
		})
		ln.Close()
		return served.Join()
	}, capriccio.WithLoops(2), capriccio.WithoutSignals())
	testenv.Check(t, err)
}

func client(t *testing.T, path string, i int) {
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	big := strings.Repeat(string(rune('a'+i)), 200_000)
	answers := fmt.Sprintf("STORED\r\nVALUE k%d 0 200000\r\n%s\r\nEND\r\n", i, big)
	for range 5 { // the connection waits in between
		go fmt.Fprintf(c, "set k%d 0 0 200000\r\n%s\r\nget k%d\r\n", i, big, i)
		got := make([]byte, len(answers))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != answers {
			t.Errorf("client %d: %.40q, %v", i, got, err)
			return
		}
	}
	io.WriteString(c, "quit\r\n")
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("after quit: %d bytes, %v", n, err)
	}
}
