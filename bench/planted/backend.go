package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// backendName is the argument of the process that stands for what servers call.
const backendName = "backend"

// serveBackend answers over HTTP after the time that is asked for, and DNS after 40 ms.
func serveBackend() {
	ln := listen()
	udp := must(net.ListenPacket("udp", "127.0.0.1:0"))
	fmt.Println(ln.Addr(), udp.LocalAddr())
	go answerNames(udp)
	s := &http.Server{Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 8}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := time.ParseDuration(r.FormValue("takes"))
		time.Sleep(d)
		io.WriteString(w, "done\n")
	})}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	log.Fatal(s.Serve(ln))
}

// answerNames answers each question for an IPv4 address with 127.0.0.1, other questions with nothing.
func answerNames(udp net.PacketConn) {
	buf := make([]byte, 512)
	for {
		n, from, err := udp.ReadFrom(buf)
		if err != nil {
			log.Fatal(err)
		}
		end := 12
		for buf[end] != 0 {
			end += int(buf[end]) + 1
		}
		end += 5
		if n < end {
			continue
		}
		answer := append([]byte{buf[0], buf[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, buf[12:end]...)
		if buf[end-3] == 1 { // type A
			answer[7] = 1
			answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1)
		}
		time.AfterFunc(40*time.Millisecond, func() { udp.WriteTo(answer, from) })
	}
}

// A remote is a backend in another process.
type remote struct {
	url, dns string
	client   *http.Client
}

func startRemote() *remote {
	cmd := exec.Command(must(os.Executable()), backendName)
	out := must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	addr, dns, _ := strings.Cut(strings.TrimSpace(must(bufio.NewReader(out).ReadString('\n'))), " ")
	return &remote{url: "http://" + addr, dns: dns, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
}

func (b *remote) useHTTP2(config *http.HTTP2Config) {
	t := &http.Transport{Protocols: new(http.Protocols), HTTP2: config}
	t.Protocols.SetUnencryptedHTTP2(true)
	b.client = &http.Client{Transport: t}
}

// get asks for an answer that takes so long.
func (b *remote) get(takes string) error {
	resp, err := b.client.Get(b.url + "/?takes=" + takes)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// A handler answers that all is well, or with its error.
type handler func(r *http.Request) error

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h(r); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	io.WriteString(w, "ok\n")
}

// nothing is the handler of programs that do something beside their requests only.
var nothing = handler(func(*http.Request) error { return nil })

// tempFile is a file without a name.
func tempFile(flags int) *os.File {
	name := filepath.Join(os.TempDir(), fmt.Sprint("planted-", os.Getpid()))
	f := must(os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY|flags, 0o600))
	os.Remove(name)
	return f
}

// every calls f again and again.
func every(d time.Duration, f func()) {
	for range time.Tick(d) {
		f()
	}
}

var computed atomic.Uint64

// compute uses the processor for about n times a microsecond.
func compute(n int) (x uint64) {
	for i := range n * 1000 {
		x = x*6364136223846793005 + uint64(i)
	}
	computed.Store(x)
	return x
}
