// Command gnet-web is the web server of examples/flowweb on gnet's event loop, so that `bench lines` has one that is
// written as callbacks: what a task keeps on its stack stands in a struct, and what waits for the disk is another
// goroutine's, which hands the response over. gnet has no sendfile: files are read as a whole.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/pool/goroutine"
)

// maxHead is how long the head of a request may be, in bytes.
const maxHead = 16 << 10

type server struct {
	gnet.BuiltinEventEngine
	root string
	pool *goroutine.Pool
}

// A state is where a connection is. It belongs to the event loop.
type state struct{ answering bool }

func (s *server) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	c.SetContext(new(state))
	return nil, gnet.None
}

// OnTraffic takes up the next request, unless the one before is not answered yet.
func (s *server) OnTraffic(c gnet.Conn) gnet.Action {
	st := c.Context().(*state)
	if st.answering {
		return gnet.None
	}
	in, err := c.Peek(-1)
	if err != nil {
		return gnet.Close
	}
	end := bytes.Index(in, []byte("\r\n\r\n")) + 4
	if end < 4 && len(in) < maxHead {
		return gnet.None
	}
	if end < 4 || end > maxHead {
		c.Write(header(nil, http.StatusRequestHeaderFieldsTooLarge, "", 0))
		return gnet.Close
	}
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(bytes.Clone(in[:end]))))
	c.Discard(end)
	switch {
	case err != nil || req.ContentLength > 0:
		c.Write(header(nil, http.StatusBadRequest, "", 0))
		return gnet.Close
	case req.Method != "GET" && req.Method != "HEAD":
		c.Write(header(nil, http.StatusMethodNotAllowed, "", 0))
		return gnet.Close
	}
	st.answering = true
	err = s.pool.Submit(func() {
		c.AsyncWrite(answer(req, s.root), func(c gnet.Conn, err error) error { return answered(c, req, err) })
	})
	if err != nil {
		return gnet.Close
	}
	return gnet.None
}

// answered goes on with the connection, on its event loop.
func answered(c gnet.Conn, req *http.Request, err error) error {
	if err != nil || req.Close {
		return errors.Join(err, c.Close())
	}
	c.Context().(*state).answering = false
	return c.Wake(nil) // another request may be there already
}

// answer is a whole response.
func answer(req *http.Request, root string) []byte {
	name := filepath.Join(root, path.Clean("/"+req.URL.Path))
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		name = filepath.Join(name, "index.html")
		info, err = os.Stat(name)
	}
	if err != nil || info.Mode()&fs.ModeType != 0 {
		return header(req, http.StatusNotFound, "", 0)
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return header(req, http.StatusNotFound, "", 0)
	}
	head := header(req, http.StatusOK, mime.TypeByExtension(filepath.Ext(name)), int64(len(content)))
	if req.Method == "HEAD" {
		return head
	}
	return append(head, content...)
}

// header is the head of a response; without a request the connection ends after it.
func header(req *http.Request, status int, kind string, length int64) []byte {
	b := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\n", status, http.StatusText(status), length)
	if kind != "" {
		b = fmt.Appendf(b, "Content-Type: %s\r\n", kind)
	}
	if req == nil || req.Close {
		b = append(b, "Connection: close\r\n"...)
	}
	return append(b, "\r\n"...)
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	root := flag.String("root", ".", "folder of the files")
	flag.Parse()
	log.Fatal(gnet.Run(&server{root: *root, pool: goroutine.Default()}, "tcp://"+*addr))
}
