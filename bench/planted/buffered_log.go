package main

import (
	"bufio"
	"log"
	"net/http"
	"os"
)

func bufferedLog() http.Handler {
	f := must(os.CreateTemp("", "planted"))
	os.Remove(f.Name())
	l := log.New(bufio.NewWriterSize(f, 1<<16), "", log.LstdFlags)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.Print(r.Method, r.URL.Path)
		answer(w, nil)
	})
}
