// Command overload compares two servers when more requests come than they can answer: net/http, and the same handler on
// Knot. It starts each as a process of its own on one processor, finds out how many requests a second
// net/http can answer, sends 0.8 times as many, twice as many, and 0.8 times as many again, and draws how many are
// answered within 100 ms.
//
//	go run ./examples/overload -o overload.svg
//
// With -url it loads a server of yours, and prints how the requests of each second were answered:
//
//	go run ./examples/overload -url http://127.0.0.1:8080/ -rate 2000
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/netpoll"
)

func main() {
	serve := flag.String("serve", "", "be the server of that `name`: knot or net-http")
	rounds := flag.Int("rounds", 0, "for -serve: how often the handler hashes a kilobyte")
	out := flag.String("o", "overload.svg", "write the picture to this `file`")
	phase := flag.Duration("phase", 4*time.Second, "how long each of the three loads takes")
	url := flag.String("url", "", "load the server at this `URL` instead, which already runs")
	rate := flag.Float64("rate", 0, "for -url: requests a second")
	flag.Parse()
	err := checkPhase(*phase)
	switch {
	case err != nil:
	case *serve != "":
		err = beServer(*serve, *rounds)
	case *url != "" && *rate <= 0:
		err = errors.New("-url needs -rate, the number of requests a second: twice as many as the server can answer, say")
	case *url != "":
		err = loadServer(*url, *rate, *phase)
	default:
		err = draw(*out, *phase)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// work is the handler of both servers. It takes about a millisecond of the processor.
func work(rounds int) http.Handler {
	block := make([]byte, 1<<10)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range rounds {
			sha256.Sum256(block)
		}
		w.Write([]byte("done\n"))
	})
}

// roundsPerMillisecond measures how often a kilobyte is hashed in a millisecond: the best of some attempts, as other
// programs may have the processor meanwhile.
func roundsPerMillisecond() int {
	const tried = 1000
	block, best := make([]byte, 1<<10), time.Hour
	for range 20 {
		began := time.Now()
		for range tried {
			sha256.Sum256(block)
		}
		best = min(best, time.Since(began))
	}
	return int(tried * time.Millisecond / best)
}

// beServer serves until the process is killed, and prints its address first.
func beServer(name string, rounds int) error {
	if name == "net-http" {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Println(ln.Addr())
		return http.Serve(ln, work(rounds))
	}
	return capriccio.Run(context.Background(), func(context.Context) error {
		ln, err := netpoll.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Println(ln.Addr())
		return knot.Serve(ln, work(rounds))
	})
}

// loadServer sends requests to the server at url, and prints how they were answered in each second. The server must answer
// a single request first.
func loadServer(url string, rate float64, phase time.Duration) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: the answer is %s; want 200 OK", url, response.Status)
	}
	l := load{url: url, phase: phase, rates: []float64{rate}}
	o := l.run()
	fmt.Print(o.perSecond(rate))
	return nil
}

// draw runs both servers, one after the other, under the same load.
func draw(file string, phase time.Duration) error {
	rounds := roundsPerMillisecond()
	var capacity float64
	p := picture{phase: phase}
	for _, name := range []string{"net-http", "knot"} {
		err := withServer(name, rounds, func(url string) {
			if capacity == 0 {
				capacity = measureCapacity(url, phase/2)
				fmt.Printf("net/http answers %.0f requests a second\n", capacity)
			}
			l := load{url: url, phase: phase}
			for _, factor := range []float64{0.8, 2, 0.8} {
				l.rates = append(l.rates, factor*capacity)
			}
			inTime := l.run().inTime
			p.add(name, inTime)
			fmt.Printf("%-8s answered within 100 ms, requests a second: %s\n", name, perPhase(inTime))
		})
		if err != nil {
			return err
		}
	}
	p.capacity = capacity
	return os.WriteFile(file, []byte(p.svg()), 0o644)
}

// withServer starts the server and calls f with its address.
func withServer(name string, rounds int, f func(url string)) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "-serve", name, "-rounds", fmt.Sprint(rounds))
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	said, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	addr, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the server %s did not start: %w", name, err)
	}
	f("http://" + strings.TrimSpace(addr))
	return nil
}
