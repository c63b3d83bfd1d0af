package models

import (
	"net"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestEveryModelAnswersEveryRequest(t *testing.T) {
	serve := map[string]func(ln *net.UnixListener, store *Store){"stream": func(ln *net.UnixListener, store *Store) {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go ServeStream(c, store)
		}
	}}
	for name, m := range Models {
		serve[name] = func(ln *net.UnixListener, store *Store) {
			file, err := ln.File()
			if err == nil {
				Serve(int(file.Fd()), m, store) // until the test program ends
			}
			runtime.KeepAlive(file)
		}
	}
	for name, serve := range serve {
		path := filepath.Join(t.TempDir(), "s")
		ln := testenv.Need(net.Listen("unix", path))(t)
		defer ln.Close()
		store := NewStore()
		store.Fill()
		go serve(ln.(*net.UnixListener), store)
		measured := 0
		n, err := Load(path, Protocols["own"], 20, 5*time.Millisecond, 30*time.Millisecond, 1, func() { measured++ })
		if err != nil || n == 0 || measured != 1 {
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
