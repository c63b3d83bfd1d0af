package main

// #include <unistd.h>
// static void convert(void) { usleep(30000); }
import "C"

import "net/http"

// transcode calls a library that takes its time.
func transcode() {
	C.convert() // cause of cgo-blocks
}

func init() { programs["cgo-blocks"] = cgoBlocks }

func cgoBlocks() http.Handler {
	return handler(func(*http.Request) error {
		transcode()
		return nil
	})
}
