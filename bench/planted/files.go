package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
)

func files() http.Handler {
	dir := must(os.MkdirTemp("", "planted"))
	os.WriteFile(filepath.Join(dir, "page"), bytes.Repeat([]byte("a page of a site\n"), 500), 0o600)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, filepath.Join(dir, "page")) })
}
