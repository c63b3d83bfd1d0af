package main

import (
	"net/http"
	"os"
	"time"
)

// flush syncs what requests have written, off their way.
func flush() http.Handler {
	f := must(os.CreateTemp("", "planted"))
	os.Remove(f.Name())
	go func() {
		for range time.Tick(100 * time.Millisecond) {
			f.Sync()
		}
	}()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := f.WriteString(r.URL.Path + "\n")
		answer(w, err)
	})
}
