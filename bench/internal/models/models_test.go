package models

import (
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestParseModel(t *testing.T) {
	for name, want := range map[string]Model{
		"sped": {}, "seda-2-4": {2, 4, false}, "seda-s-3": {3, 3, true}, "amped-0-2": {0, 2, false}, "amped-1-2": {1, 2, false}, "symped-4": {4, 0, false},
	} {
		testenv.Got(ParseModel(name))(t, want, name)
	}
	for _, name := range []string{"", "spe", "sped-1", "seda", "seda-2", "seda-0-1", "seda-s-0", "seda-s-1-2", "amped-2-2", "amped-1-0", "symped-0", "symped-x", "symped-99"} {
		if m, err := ParseModel(name); err == nil || !strings.Contains(err.Error(), "want sped") {
			t.Errorf("%q: %+v, %v; want an error", name, m, err)
		}
	}
}

func TestEveryModelAnswersEveryRequest(t *testing.T) {
	for _, name := range []string{"sped", "seda-2-2", "seda-s-2", "amped-0-2", "amped-1-2", "symped-2", "stream"} {
		path := filepath.Join(t.TempDir(), "s")
		ln := testenv.Need(net.Listen("unix", path))(t)
		defer ln.Close()
		store := NewStore()
		store.Fill()
		if name == "stream" {
			go func() {
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					go ServeStream(c, store)
				}
			}()
		} else {
			m := testenv.Need(ParseModel(name))(t)
			file := testenv.Need(ln.(*net.UnixListener).File())(t)
			defer runtime.KeepAlive(file)
			go Serve(int(file.Fd()), m, store) // until the test program ends
		}
		measured := 0
		n, err := Load(path, Protocols["own"], 20, 5*time.Millisecond, 30*time.Millisecond, 1, func(bool) error { measured++; return nil })
		if err != nil || n == 0 || measured != 2 {
			t.Errorf("%s: %d transactions, %v", name, n, err)
		}
	}
}

func TestPipelinedAndBrokenRequests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln := testenv.Need(net.Listen("unix", path))(t)
	defer ln.Close()
	file := testenv.Need(ln.(*net.UnixListener).File())(t)
	defer runtime.KeepAlive(file)
	go Serve(int(file.Fd()), Model{1, 1, false}, NewStore())
	c := testenv.Need(net.Dial("unix", path))(t)
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	all := appendRequest(nil, opSet, "k", []byte("value"))
	all = appendRequest(all, opGet, "k", nil)
	all = appendRequest(all, opGet, "none", nil)
	want := appendResponse(appendResponse(appendResponse(nil, statusGood, nil), statusGood, []byte("value")), statusNone, nil)
	for _, b := range all { // a byte at a time
		c.Write([]byte{b})
	}
	got := make([]byte, len(want))
	for n := 0; n < len(got); {
		k := testenv.Need(c.Read(got[n:]))(t)
		n += k
	}
	testenv.Equal(t, string(got), string(want))
	c.Write([]byte("nonsense"))
	if n, err := c.Read(got); err == nil {
		t.Errorf("after nonsense: %d bytes; want the end", n)
	}
}
