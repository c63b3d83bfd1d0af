package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
)

// request parses a whole head. A status other than 0 is the response to a request that is not served.
func request(head []byte) (req *http.Request, status int) {
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
	switch {
	case err != nil || req.ContentLength != 0: // what comes behind it would be taken for a request
		return nil, http.StatusBadRequest
	case req.Method != "GET" && req.Method != "HEAD":
		return nil, http.StatusMethodNotAllowed
	}
	return req, 0
}

// file is what the files of packages aio and os have in common.
type file interface {
	io.ReadCloser
	Stat() (os.FileInfo, error)
}

// answer is the head of the response, and the file that follows it if found is set.
func answer[F file](req *http.Request, root string, open func(string) (F, error)) (head []byte, f F, size int64, found bool) {
	name := filepath.Join(root, path.Clean("/"+req.URL.Path))
	f, err := open(name)
	if err != nil {
		return header(req, http.StatusNotFound, "", 0), f, 0, false
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		f.Close()
		name = filepath.Join(name, "index.html")
		if f, err = open(name); err != nil {
			return header(req, http.StatusNotFound, "", 0), f, 0, false
		}
		info, err = f.Stat()
	}
	if err != nil || !info.Mode().IsRegular() {
		f.Close()
		return header(req, http.StatusNotFound, "", 0), f, 0, false
	}
	head = header(req, http.StatusOK, mime.TypeByExtension(filepath.Ext(name)), info.Size())
	if req.Method == "HEAD" {
		f.Close()
		return head, f, 0, false
	}
	return head, f, info.Size(), true
}

// header is the head of a response; without a request the connection ends after it.
func header(req *http.Request, status int, kind string, length int64) []byte {
	b := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\n", status, http.StatusText(status), length)
	if kind != "" {
		b = fmt.Appendf(b, "Content-Type: %s\r\n", kind)
	}
	switch {
	case req == nil || req.Close:
		b = append(b, "Connection: close\r\n"...)
	case !req.ProtoAtLeast(1, 1): // such a client waits for the end of the connection otherwise
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	return append(b, "\r\n"...)
}

// maxHead is how long the head of a request may be, in bytes.
const maxHead = 16 << 10
