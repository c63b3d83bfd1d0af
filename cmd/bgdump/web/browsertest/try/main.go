// Command try serves the page of bgdump with a program that is made up, so that one can
// look at it without a server under load.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/cmd/bgdump/web"
	"github.com/capriccio-go/capriccio/cmd/bgdump/web/internal/sample"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8090", "address to listen on")
	what := flag.String("program", "shop", "what to show: shop, wide (1,000 nodes) or hostile")
	flag.Parse()
	programs := map[string]func() *sample.Program{"shop": sample.Shop, "wide": func() *sample.Program { return sample.Wide(1000) }, "hostile": sample.Hostile}
	begin, ok := programs[*what]
	if !ok {
		fmt.Fprintf(os.Stderr, "try: no program %q; there are shop, wide and hostile\n", *what)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "try:", err)
		os.Exit(1)
	}
	fmt.Printf("http://%s\n", ln.Addr())
	if err := web.Serve(ctx, ln, &live{Program: begin()}, web.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, "try:", err)
		os.Exit(1)
	}
}

// live lets time pass for a program as it does here.
type live struct {
	*sample.Program
	mu   sync.Mutex
	last time.Time // guarded by mu
}

func (l *live) Snapshot(ctx context.Context) (*bgraph.Snapshot, error) {
	l.mu.Lock()
	now := time.Now()
	if l.last.IsZero() {
		l.last = now.Add(-2 * time.Second)
	}
	l.Advance(now.Sub(l.last))
	l.last = now
	l.mu.Unlock()
	return l.Program.Snapshot(ctx)
}
