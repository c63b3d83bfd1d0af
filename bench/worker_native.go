package main

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// nativeWait is how long a handler of the experiment native waits.
const nativeWait = 100 * time.Millisecond

// waitIn waits in a channel, in time.Sleep, a cond or a mutex; a request for /MODE asks for it.
func waitIn(mode string) {
	switch mode {
	case "channel":
		<-time.After(nativeWait)
	case "sleep":
		time.Sleep(nativeWait)
	case "cond":
		var mu sync.Mutex
		over, cond := false, sync.NewCond(&mu)
		time.AfterFunc(nativeWait, func() {
			mu.Lock()
			over = true
			mu.Unlock()
			cond.Signal()
		})
		mu.Lock()
		for !over {
			cond.Wait()
		}
		mu.Unlock()
	case "mutex":
		var mu sync.Mutex
		mu.Lock()
		time.AfterFunc(nativeWait, mu.Unlock)
		mu.Lock()
		mu.Unlock()
	}
}

// runNativeServer is a server whose handlers wait natively if the path says so. It ends with
// its standard input.
func runNativeServer(args []string, out io.Writer) {
	flags := flag.NewFlagSet("native", flag.ExitOnError)
	http1 := flags.Bool("http", false, "net/http on goroutines")
	holding := flags.Bool("holding", false, "a task that waits natively holds its loop")
	flags.Parse(args)
	if *http1 {
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			waitIn(strings.TrimPrefix(r.URL.Path, "/"))
			io.WriteString(w, "Hello, World!")
		})}
		serveOnGoroutines(out, server.Serve)
		return
	}
	options := []capriccio.Option{capriccio.WithoutRefusals()}
	if *holding {
		options = append(options, capriccio.WithDetaching(-1, 0))
	}
	serveKnot(must(oneLoopWith(options...)), &knot.Server{Handler: func(x *knot.Ctx) error {
		waitIn(strings.TrimPrefix(x.Path(), "/"))
		return x.SendString(200, "text/plain", "Hello, World!")
	}}, out)
}

// runLockedRead has many tasks, or goroutines, hold one sync.Mutex across a write and a read.
func runLockedRead(args []string, out io.Writer) {
	flags := flag.NewFlagSet("locked-read", flag.ExitOnError)
	addr := flags.String("addr", "", "address of a server that answers")
	tasks := flags.Int("tasks", nativeTasks, "how many")
	goroutines := flags.Bool("goroutines", false, "goroutines, not tasks")
	flags.Parse(args)
	var took time.Duration
	if *goroutines {
		took = lockedReads(*tasks, new(sync.WaitGroup), must(net.Dial("tcp", *addr)))
	} else {
		check(capriccio.Run(context.Background(), func(context.Context) error {
			took = lockedReads(*tasks, new(task.WaitGroup), must(netpoll.Dial("tcp", *addr)))
			return nil
		}, capriccio.WithLoops(1), capriccio.WithLogger(slog.New(slog.DiscardHandler))))
	}
	emitAt(out, *tasks)(lockedMetric, "µs", float64(took.Microseconds())/float64(*tasks*lockedRounds))
}

const (
	lockedRounds = 4                // times that each has the lock
	lockedStall  = 30 * time.Second // without an exchange: it hangs
)

// untilStalled returns how to tell of progress. If none is told of for limit, stalled is called.
func untilStalled(limit time.Duration, stalled func()) (progress, end func()) {
	timer := time.AfterFunc(limit, stalled)
	return func() { timer.Reset(limit) }, func() { timer.Stop() }
}

func lockedReads(tasks int, all interface {
	Go(func())
	Wait()
}, c net.Conn) time.Duration {
	defer c.Close()
	var mu sync.Mutex
	request, answer := []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), make([]byte, 512)
	progress, end := untilStalled(lockedStall, func() { panic(fmt.Sprintf("no exchange for %v", lockedStall)) })
	defer end()
	exchange := func() {
		mu.Lock()
		defer mu.Unlock()
		progress()
		must(c.Write(request))
		for n := 0; !bytes.HasSuffix(answer[:n], []byte("Hello, World!")); { // it may come in pieces
			k, err := c.Read(answer[n:])
			if n += k; err != nil || k == 0 {
				check(fmt.Errorf("answered %q: %w", answer[:n], cmp.Or(err, io.ErrShortBuffer)))
			}
		}
	}
	began := time.Now()
	for range tasks {
		all.Go(func() {
			for range lockedRounds {
				exchange()
			}
		})
	}
	all.Wait()
	return time.Since(began)
}
