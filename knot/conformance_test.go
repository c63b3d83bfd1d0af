package knot

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/httpcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestConformance runs the table of cases against Knot's own handlers and those of net/http.
func TestConformance(t *testing.T) {
	root := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(root, "file"), []byte(httpcases.File), 0o644))
	old := time.Now().Add(-time.Hour)
	testenv.Must(t, os.Chtimes(filepath.Join(root, "file"), old, old))
	files := openWith(t, root, keepings[0].config)
	own := func(x *Ctx) error {
		switch x.Path() {
		case httpcases.FilePath, "/none":
			return files.Serve(x)
		case httpcases.NoContent:
			return Status(http.StatusNoContent)
		}
		body, err := io.ReadAll(x.Body())
		if err != nil {
			return err
		}
		x.AddHeader("Seen", httpcases.Seen(x.Method(), x.Path(), string(body)))
		return x.SendString(200, "text/plain", "seen\n")
	}
	for name, handler := range map[string]Handler{"knot": own, "net/http": AdaptHTTP(http.HandlerFunc(httpcases.Handler))} {
		t.Run(name, func(t *testing.T) {
			everyMode(t, func(t *testing.T, start func(*Server) *served) {
				sv := start(&Server{Handler: handler})
				c := &httpcases.Client{Dial: func() (net.Conn, error) { return net.Dial("tcp", sv.addr) }, Patience: time.Minute}
				cases := httpcases.Cases
				if name == "knot" {
					testenv.Must(t, c.Learn())
					cases = append(cases[:len(cases):len(cases)], httpcases.FileCases...)
				}
				runCases(t, c, cases)
			})
		})
	}
}

func runCases(t *testing.T, c *httpcases.Client, cases []httpcases.Case) {
	var all sync.WaitGroup
	places := make(chan bool, 16)
	for _, k := range cases {
		places <- true
		all.Go(func() {
			got, fault := c.Run(&k)
			first, _, _ := strings.Cut(k.Want, "|") // what Knot does, of all that is allowed
			if fault != "" || !httpcases.Same(got, first) {
				t.Errorf("%s (RFC %s): %s, want %s; %s\n%.300q", k.Name, k.Section, got, k.Want, fault, k.Send)
			}
			<-places
		})
	}
	all.Wait()
}
