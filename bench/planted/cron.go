package main

import (
	"net/http"
	"time"
)

// cron has ten things to do now and then.
func cron() http.Handler {
	for i := range 10 {
		go func() {
			for range time.Tick(time.Duration(50+10*i) * time.Millisecond) {
				compute(100)
			}
		}()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, nil) })
}
