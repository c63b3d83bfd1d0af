package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// runSoakBackend is a backend of sites-soak: its responses say what it was asked, so that a client can tell its own from
// those of others. It ends with its standard input.
func runSoakBackend(args []string, out io.Writer) {
	flags := flag.NewFlagSet("soak-backend", flag.ExitOnError)
	name := flags.String("name", "", "name in the responses")
	flags.Parse(args)
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/verify", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer soak" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Remote-User", "alice")
	})
	mux.HandleFunc("/ws", upgradeToEcho)
	mux.HandleFunc("/kept/", func(w http.ResponseWriter, r *http.Request) {
		tag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(r.RequestURI+r.Header.Get("X-Lang"))))
		w.Header().Set("Cache-Control", "max-age="+strconv.Itoa(1+len(r.RequestURI)%4))
		w.Header().Set("Vary", "X-Lang")
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprintf(w, "target=%s\nlang=%s\n%s", r.RequestURI, r.Header.Get("X-Lang"), filler(r))
	})
	mux.HandleFunc("/own/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "private, max-age=60")
		fmt.Fprintf(w, "target=%s\ntoken=%s\n", r.RequestURI, r.Header.Get("X-Token"))
	})
	mux.HandleFunc("/api/teapot", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "not for clients", http.StatusTeapot) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		n, err := io.Copy(sum, r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "backend=%s\ntarget=%s\ntoken=%s\nfor=%s\ntenant=%s\nuser=%s\nbody=%d %x\n", *name, r.RequestURI, r.Header.Get("X-Token"),
			r.Header.Get("X-Forwarded-For"), r.Header.Get("X-Tenant"), r.Header.Get("Remote-User"), n, sum.Sum(nil))
		if r.URL.Query().Has("stream") {
			for range 5 {
				time.Sleep(100 * time.Millisecond)
				io.WriteString(w, "data\n")
				http.NewResponseController(w).Flush()
			}
		}
		io.WriteString(w, filler(r))
	})
	serveOnGoroutines(out, func(ln net.Listener) error { return http.Serve(ln, mux) })
}

// filler is text of the length that the request asks for.
func filler(r *http.Request) string {
	n, _ := strconv.Atoi(r.URL.Query().Get("size"))
	return strings.Repeat("x", min(max(n, 0), 4<<20))
}

// upgradeToEcho sends back what it gets after an upgrade.
func upgradeToEcho(w http.ResponseWriter, r *http.Request) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+r.Header.Get("Upgrade")+"\r\n\r\n")
	io.Copy(conn, buffered)
}
