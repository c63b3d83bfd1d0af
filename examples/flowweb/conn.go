package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
)

// converse serves a connection, in a task or on a goroutine.
func converse[F file](c net.Conn, root string, open func(string) (F, error)) {
	defer c.Close()
	in := bufio.NewReaderSize(c, maxHead)
	for goesOn := true; goesOn; {
		n, err := headLength(in)
		if err == bufio.ErrBufferFull {
			c.Write(header(nil, http.StatusRequestHeaderFieldsTooLarge, "", 0))
		}
		if err != nil {
			return
		}
		head, _ := in.Peek(n)
		req, status := request(head)
		in.Discard(n)
		if status != 0 {
			c.Write(header(nil, status, "", 0))
			return
		}
		head, f, size, found := answer(req, root, open)
		_, err = c.Write(head)
		if found {
			if err == nil {
				_, err = io.CopyN(c, f, size)
			}
			f.Close()
		}
		goesOn = err == nil && !req.Close
	}
}

// headLength waits for the head of a request, which it leaves in the buffer; ErrBufferFull: it is longer than that.
func headLength(in *bufio.Reader) (int, error) {
	for n := 1; ; n = in.Buffered() + 1 {
		if _, err := in.Peek(n); err != nil {
			return 0, err
		}
		data, _ := in.Peek(in.Buffered())
		if i := bytes.Index(data, []byte("\r\n\r\n")); i >= 0 {
			return i + 4, nil
		}
	}
}
