package main

import (
	"log"
	"net/http"
	"os"
)

// trail is written to a file that is as safe as it is slow.
func trail(l *log.Logger, path string) {
	l.Printf("GET %s", path) // cause
}

func logLock() http.Handler {
	f := must(os.CreateTemp("", "planted"))
	os.Remove(f.Name())
	f = must(os.OpenFile(f.Name(), os.O_CREATE|os.O_WRONLY|os.O_SYNC, 0o600))
	os.Remove(f.Name())
	l := log.New(f, "", log.LstdFlags)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		trail(l, r.URL.Path)
		answer(w, nil)
	})
}
