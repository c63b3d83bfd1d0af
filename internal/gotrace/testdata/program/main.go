// Program waits in all ways that a trace tells apart. Golden traces are of it: in this folder
//
//	GOTOOLCHAIN=go1.26.8 go run main.go >../go1.26.trace # again if it has more than 50 KB: some sweeps yield all the time
//
// and likewise for other releases of Go. Those in the folder releases are of an older, smaller program.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/trace"
	"sync"
	"time"
)

// orders is how often most of what follows happens.
const orders = 24

func main() {
	var b bytes.Buffer
	must(trace.Start(&b))
	takeOrders()
	guards()
	conditions()
	values()
	pipes()
	requests()
	pool()
	compute()
	trace.Stop()
	_, err := os.Stdout.Write(b.Bytes())
	must(err)
}

// takeOrders hands orders to three workers, which sleep with a lock held.
func takeOrders() {
	var mu sync.Mutex
	work := make(chan int)
	var wg sync.WaitGroup
	for i := 0; i < 3; i++ {
		wg.Add(1)
		go worker(&wg, &mu, work)
	}
	for i := 0; i < orders; i++ {
		ctx, task := trace.NewTask(context.Background(), "order")
		trace.WithRegion(ctx, "send", func() { work <- i })
		trace.Log(ctx, "sent", "yes")
		task.End()
	}
	close(work)
	wg.Wait()
}

func worker(wg *sync.WaitGroup, mu *sync.Mutex, work chan int) {
	defer wg.Done()
	for range work {
		mu.Lock()
		time.Sleep(time.Millisecond)
		mu.Unlock()
	}
}

// guards has readers wait for a writer, and the writer for readers.
func guards() {
	for i := 0; i < orders; i++ {
		var mu sync.RWMutex
		var wg sync.WaitGroup
		mu.Lock()
		wg.Add(2)
		go reader(&wg, &mu)
		go reader(&wg, &mu)
		time.Sleep(300 * time.Microsecond)
		mu.Unlock()
		writer(&mu)
		wg.Wait()
	}
}

func reader(wg *sync.WaitGroup, mu *sync.RWMutex) {
	defer wg.Done()
	mu.RLock()
	time.Sleep(200 * time.Microsecond)
	mu.RUnlock()
}

func writer(mu *sync.RWMutex) {
	mu.Lock()
	mu.Unlock()
}

// conditions lets goroutines wait on a condition until they are told by turns.
func conditions() {
	var mu sync.Mutex
	cond := sync.NewCond(&mu)
	turn := 0
	var wg sync.WaitGroup
	for i := 0; i < 2; i++ {
		wg.Add(1)
		go func(i int) {
			defer wg.Done()
			for n := i; n < orders; n += 2 {
				takeTurn(cond, &turn, n)
			}
		}(i)
	}
	wg.Wait()
}

func takeTurn(cond *sync.Cond, turn *int, n int) {
	cond.L.Lock()
	for *turn != n {
		cond.Wait()
	}
	*turn++
	cond.L.Unlock()
	cond.Broadcast()
}

// values goes through a select of two channels and a timer, and to one that nobody ever reads.
func values() {
	never := make(chan int)
	go func() { never <- 1 }()
	go func() { select {} }()
	a, b := make(chan int), make(chan int)
	go func() {
		defer close(a)
		for i := 0; i < orders; i++ {
			time.Sleep(100 * time.Microsecond)
			if i%2 == 0 {
				a <- i
			} else {
				b <- i
			}
		}
	}()
	for open := true; open; {
		open = choose(a, b)
	}
	<-time.After(time.Millisecond)
}

func choose(a, b chan int) bool {
	limit := time.NewTimer(time.Second)
	defer limit.Stop()
	select {
	case _, open := <-a:
		return open
	case <-b:
	case <-limit.C:
	}
	return true
}

// pipes sends values through a pipe of the system, which its reader must wait for, and yields.
func pipes() {
	r, w, err := os.Pipe()
	must(err)
	go func() {
		defer w.Close()
		for i := 0; i < orders; i++ {
			time.Sleep(100 * time.Microsecond)
			w.Write([]byte{1})
			runtime.Gosched()
		}
	}()
	_, err = io.Copy(io.Discard, r)
	must(err)
}

// requests asks a server over loopback.
func requests() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	s := &http.Server{Handler: http.HandlerFunc(handle)}
	go s.Serve(ln)
	for i := 0; i < orders; i++ {
		resp, err := http.Get("http://" + ln.Addr().String())
		must(err)
		_, err = io.Copy(io.Discard, resp.Body)
		must(err)
		resp.Body.Close()
	}
	s.Close()
}

func handle(w http.ResponseWriter, _ *http.Request) {
	time.Sleep(100 * time.Microsecond)
	io.WriteString(w, "Hello, World!")
}

// pool has four goroutines share a connection of a database.
func pool() {
	db := sql.OpenDB(connector{})
	db.SetMaxOpenConns(1)
	var wg sync.WaitGroup
	for i := 0; i < 4; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := 0; n < orders/4; n++ {
				query(db)
			}
		}()
	}
	wg.Wait()
	db.Close()
}

func query(db *sql.DB) {
	c, err := db.Conn(context.Background())
	must(err)
	time.Sleep(100 * time.Microsecond)
	must(c.Close())
}

type connector struct{}

func (connector) Connect(context.Context) (driver.Conn, error) { return conn{}, nil }
func (connector) Driver() driver.Driver                        { return nil }

type conn struct{}

func (conn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not here") }
func (conn) Begin() (driver.Tx, error)           { return nil, errors.New("not here") }
func (conn) Close() error                        { return nil }

// compute takes long steps and collects.
func compute() {
	var once sync.Once
	var wg sync.WaitGroup
	for i := 0; i < 2; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			once.Do(spin)
		}()
	}
	wg.Wait()
	for i := 0; i < 40; i++ {
		sink = make([]byte, 1<<17) // until the collector comes, once
	}
}

var sink []byte

func spin() {
	for began := time.Now(); time.Since(began) < 30*time.Millisecond; {
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
