package web

import (
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var embedded embed.FS

const contentPolicy = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// handler is everything that the page answers.
func (p *Page) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/state", p.serveState)
	mux.HandleFunc("/api/layout", p.serveLayout)
	mux.HandleFunc("/api/flame", p.serveFlame)
	mux.HandleFunc("/api/track", p.serveTrack)
	mux.HandleFunc("/api/request", p.serveRequest)
	mux.HandleFunc("/api/export", p.serveExport)
	mux.Handle("/", staticFiles())
	return guard(p.opts.Loopback, mux)
}

// guard refuses requests that no page of ours would send, and tells browsers what they must
// not do with the answers.
func guard(loopback bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		switch site := r.Header.Get("Sec-Fetch-Site"); {
		case loopback && !isLoopback(r.Host):
			fail(w, http.StatusForbidden, "This page is for this machine only: ask for it as localhost, not as another name.")
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			fail(w, http.StatusMethodNotAllowed, "Nothing can be changed here: only GET and HEAD are answered.")
		case (site == "cross-site" || site == "same-site") && (strings.HasPrefix(r.URL.Path, "/api/") || r.Header.Get("Sec-Fetch-Dest") != "document"):
			fail(w, http.StatusForbidden, "Only the page itself may ask for its figures.") // which may take a trace
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isLoopback reports whether a Host header names this machine in a way that no name server
// has a say in.
func isLoopback(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}

// A staticFile is a file of the page as it is sent.
type staticFile struct {
	content []byte
	kind    string
	tag     string
}

var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// staticFiles serves the files of the page, and nothing else.
func staticFiles() http.Handler {
	files := make(map[string]staticFile)
	entries, err := embedded.ReadDir("static")
	if err != nil {
		panic("web: embedded files: got " + err.Error() + ", want the folder static")
	}
	for _, e := range entries {
		content, err := fs.ReadFile(embedded, "static/"+e.Name())
		if err != nil {
			panic("web: embedded file " + e.Name() + ": got " + err.Error() + ", want its content")
		}
		sum := sha256.Sum256(content)
		files["/"+e.Name()] = staticFile{content, kinds[path.Ext(e.Name())], `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	files["/"] = files["/index.html"]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := files[r.URL.Path]
		if !ok {
			http.Error(w, "There is no such page. What there is: /", http.StatusNotFound)
			return
		}
		w.Header().Set("ETag", f.tag)
		if r.Header.Get("If-None-Match") == f.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", f.kind)
		w.Write(f.content)
	})
}

// fail answers with an error.
func fail(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"error": message})
}

// reply answers with v as JSON, compressed if that is wanted.
func reply(w http.ResponseWriter, r *http.Request, v any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept-Encoding")
	if r.Method == http.MethodHead {
		return
	}
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		json.NewEncoder(w).Encode(v)
		return
	}
	h.Set("Content-Encoding", "gzip")
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
	json.NewEncoder(z).Encode(v)
	z.Close()
}
