package main

// #include <unistd.h>
// static void convert(void) { usleep(30000); }
import "C"

import "net/http"

// transcode calls a library that takes its time.
func transcode() {
	C.convert() // cause
}

func init() { programs["cgo-blocks"] = cgoBlocks }

func cgoBlocks() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		transcode()
		answer(w, nil)
	})
}
