package knot

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// TestList shows what Serve would serve, and nothing else.
func TestList(t *testing.T) {
	root := makeSite(t)
	for _, walks := range []bool{false, true} {
		f := openTestFiles(t, root, walks)
		list := func(target string, most int) (names map[string]Listed, more bool, err error) {
			nc := newScriptConn([]byte("GET "+target+" HTTP/1.1\r\nHost: h\r\n\r\n"), nil, 1)
			serveScript(&Server{Handler: func(x *Ctx) error {
				var all []Listed
				all, more, err = f.List(x, most)
				names = make(map[string]Listed)
				for _, one := range all {
					names[one.Name] = one
				}
				return nil
			}}, nc)
			return names, more, err
		}
		top, more, err := list("/", 1000)
		if err != nil || more {
			t.Fatal(err, more)
		}
		want := []string{"UPPER.HTML", "a.txt", "bare", "big.bin", "empty.txt", "index.html", "linked", "sp ace+%41é.txt", "sub"}
		if !walks {
			want = append(want, "inside", "through-git", "to-wk")
		}
		slices.Sort(want)
		testenv.EqualSlices(t, slices.Sorted(maps.Keys(top)), want, "walks %v", walks)
		if a := top["a.txt"]; a.Dir || a.Size != 10 || a.Modified.IsZero() || !top["sub"].Dir || !walks && top["inside"].Size != 10 {
			t.Errorf("%+v, %+v, %+v", a, top["sub"], top["inside"])
		}
		for name, one := range top {
			target := "/" + name
			if one.Dir {
				target += "/"
			}
			if status := statusOf(askFile(f, string(h1.AppendEscaped(nil, []byte(target))))); status != "200" && !one.Dir {
				t.Errorf("%s is listed and gets %s", name, status)
			}
		}
		if some, more, err := list("/", 3); len(some) != 3 || !more || err != nil {
			t.Errorf("%d names, more %v, %v", len(some), more, err)
		}
		if sub, _, err := list("/sub/", 1000); err != nil || sub["b"].Size != 12 || sub["index.html"].Name == "" {
			t.Errorf("%v, %v", sub, err)
		}
		for target, want := range map[string]Status{"/none/": 404, "/.git/": 404, "/a.txt/": 404, "/sub": 404, "/etc/": 403, "/updir/": 403} {
			var status Status
			if _, _, err := list(target, 10); !errors.As(err, &status) || status != want {
				t.Errorf("%s: %v, want %d", target, err, want)
			}
		}
	}
}

// TestListClosesWhatItOpens.
func TestListClosesWhatItOpens(t *testing.T) {
	root := t.TempDir()
	for i := range 600 {
		testenv.Must(t, os.WriteFile(filepath.Join(root, fmt.Sprint("f", i)), nil, 0o644))
	}
	f := openTestFiles(t, root, false)
	before := countFDs()
	for range 3 {
		nc := newScriptConn([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), nil, 1)
		serveScript(&Server{Handler: func(x *Ctx) error {
			all, more, err := f.List(x, 599)
			if len(all) != 599 || !more || err != nil {
				t.Error(len(all), more, err)
			}
			return nil
		}}, nc)
	}
	testenv.AtMost(t, countFDs(), before, "descriptors, before %d", before)
}
