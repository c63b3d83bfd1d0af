// Command convoy is a program with a fault: saving holds a lock that all workers need. bgdump finds it.
package main

import (
	"net/http"
	_ "net/http/pprof"
	"sync"
	"time"
)

var mu sync.Mutex

func save() {
	mu.Lock()
	defer mu.Unlock()
	time.Sleep(time.Millisecond) // stands for a slow disk
}

func main() {
	for range 50 {
		go func() {
			for {
				save()
			}
		}()
	}
	http.ListenAndServe("localhost:6060", nil)
}
