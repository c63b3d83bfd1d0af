// Command vod is a server of video on demand: it sends a film as fast as it can until the
// player has some in store, and then a little at a time, as it is played (Aspen, PPoPP 2007,
// section 5.2). For comparison it is written three times: as a graph of package internal/flow
// (flow.go), with a task for each connection (task.go), and with a goroutine for each
// (goroutine.go).
//
//	go run ./examples/vod -film film.bin -rate 6 &
//	curl http://127.0.0.1:8080/ | pv > /dev/null
//
// Every connection gets the same file, from the offset given as ?from=BYTES on, rounded down to
// 256 KB, round and round. Files are read past the page cache (O_DIRECT) where the file system has that.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	film := flag.String("film", "", "file to send")
	rate := flag.Float64("rate", 6, "rate of the film, in Mbit/s")
	first := flag.Duration("first", time.Minute, "how much of the film is sent at once")
	chunk := flag.Duration("chunk", 5*time.Second, "how much is sent at a time after that")
	by := flag.String("by", "flow", "flow, task or goroutine")
	flag.Parse()
	servers := map[string]func(string, *movie) error{"flow": byFlow, "task": byTask, "goroutine": byGoroutine}
	serve := servers[*by]
	switch {
	case serve == nil:
		log.Fatalf("vod: -by %s; want flow, task or goroutine", *by)
	case *film == "":
		log.Fatal("vod: -film is missing; want a file of at least 256 KiB")
	case *rate <= 0 || *first < 0 || *chunk <= 0:
		log.Fatal("vod: -rate and -chunk must be above 0, -first not below")
	}
	info, err := os.Stat(*film)
	if err != nil {
		log.Fatal("vod: ", err)
	}
	m := &movie{name: *film, size: info.Size() / pieceSize * pieceSize, rate: *rate * 1e6 / 8, first: *first, chunk: *chunk}
	if m.size == 0 {
		log.Fatalf("vod: %s has %d bytes; want at least %d", *film, info.Size(), pieceSize)
	}
	if err := serve(*addr, m); err != nil {
		log.Fatal(err)
	}
}

// pieceSize is the size of reads and writes, in bytes.
const pieceSize = 256 << 10

// A movie is the film and the rate at which it is sent.
type movie struct {
	name         string
	size         int64         // of the file, in whole pieces
	rate         float64       // bytes/s
	first, chunk time.Duration // of playing time: at once, and then at a time
}

// due is when the byte after the first sent ones must be sent, after the start of the
// connection.
func (m *movie) due(sent int64) time.Duration {
	ahead := time.Duration(float64(sent)/m.rate*float64(time.Second)) - m.first
	if ahead < 0 {
		return 0
	}
	return (ahead/m.chunk + 1) * m.chunk
}

// at is where in the file a connection is that began with from and has got sent.
func (m *movie) at(from, sent int64) int64 {
	return (from/pieceSize*pieceSize%m.size + sent) % m.size
}

const responseHead = "HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nConnection: close\r\n\r\n"

// maxHead is how long a request may be, in bytes.
const maxHead = 8 << 10

// parse reads a request that begins with data. It returns where in the film to
// begin, and false if more data is needed.
func parse(data []byte) (from int64, complete bool, err error) {
	if !bytes.Contains(data, []byte("\r\n\r\n")) {
		if len(data) > maxHead {
			return 0, true, fmt.Errorf("a request of more than %d bytes", maxHead)
		}
		return 0, false, nil
	}
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(data)))
	if err != nil {
		return 0, true, err
	}
	if text := req.URL.Query().Get("from"); text != "" {
		if from, err = strconv.ParseInt(text, 10, 64); err == nil && from < 0 {
			err = fmt.Errorf("from=%d; want 0 or more", from)
		}
	}
	return from, true, err
}

// refusal returns the response to a malformed request.
func refusal(err error) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%v\n", len(err.Error())+1, err)
}

// buffers for pieces, *[]byte, aligned for O_DIRECT.
var buffers sync.Pool
