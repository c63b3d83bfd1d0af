package knot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"time"
)

// sampleMux does what handlers do.
func sampleMux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
	mux.HandleFunc("/html", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<!doctype html><p>x") })
	mux.HandleFunc("/json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header()["x-odd"] = []string{"a", "b"}
		w.Header().Set("Bad name", "x")
		w.Header().Set("Date", "never")
		w.WriteHeader(201)
		w.Header().Set("Too-Late", "x")
		io.WriteString(w, "{}")
	})
	mux.HandleFunc("/untyped", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = nil
		io.WriteString(w, "<html>")
	})
	mux.HandleFunc("/length", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		n, err := io.WriteString(w, "12345")
		if n != 5 || err != nil {
			panic(err)
		}
		if _, err := io.WriteString(w, "6"); !errors.Is(err, http.ErrContentLength) {
			panic(err)
		}
	})
	mux.HandleFunc("/nothing", func(w http.ResponseWriter, r *http.Request) {})
	mux.HandleFunc("/204", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(204)
		if _, err := w.Write([]byte("x")); err != http.ErrBodyNotAllowed {
			panic(err)
		}
	})
	mux.HandleFunc("/early", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(103)
		w.WriteHeader(418)
		io.WriteString(w, "tea")
	})
	mux.HandleFunc("/close", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		io.WriteString(w, "last")
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, r *http.Request) {
		for i := range 3000 {
			fmt.Fprintf(w, "line %d of a body that is long\n", i)
		}
	})
	mux.HandleFunc("/flushed", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "a")
		w.(http.Flusher).Flush()
		if err := http.NewResponseController(w).Flush(); err != nil {
			panic(err)
		}
		io.WriteString(w, "b")
	})
	mux.HandleFunc("/body", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %d %q %v %v", r.ContentLength, len(body), r.TransferEncoding, err, bytes.Count(body, []byte("x")))
	})
	mux.HandleFunc("/request/", dumpRequest)
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "a.txt", time.Unix(1e9, 0), strings.NewReader(strings.Repeat("0123456789", 1000)))
	})
	mux.HandleFunc("/keep-alive", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "keep-alive")
		io.WriteString(w, "not the last")
	})
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.PathValue("code"))
		w.WriteHeader(code)
	})
	mux.HandleFunc("/error", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	return mux
}

// dumpRequest answers with what it was asked, but for addresses.
func dumpRequest(w http.ResponseWriter, r *http.Request) {
	_, local := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	_, _, err := net.SplitHostPort(r.RemoteAddr)
	var lines []string
	for name, values := range r.Header {
		lines = append(lines, fmt.Sprintf("%s: %q", name, values))
	}
	sort.Strings(lines)
	fmt.Fprintln(w, r.Method, r.URL, r.Proto, r.ProtoMajor, r.ProtoMinor, r.Host, r.RequestURI, r.URL.Path, r.URL.RawPath,
		r.URL.RawQuery, r.Close, r.ContentLength, r.TransferEncoding, r.Body == http.NoBody, r.TLS == nil, local, err, lines, r.PathValue("x"))
}
