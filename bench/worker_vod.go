package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// runPlayers is the client process of vod: it plays films and prints how many players ran
// out of film, then samples, whose parameter is the rate in Mbit/s.
func runPlayers(args []string, out io.Writer) {
	flags := flag.NewFlagSet("players", flag.ExitOnError)
	addr := flags.String("addr", "", "address of the server")
	path := flags.String("path", "", "of the film; empty: as examples/vod has it")
	pid := flags.Int("pid", 0, "process of the server")
	clients := flags.Int("clients", 1, "players")
	rate := flags.Float64("rate", 1, "of the film, Mbit/s")
	first := flags.Duration("first", time.Second, "of film before a player begins")
	length := flags.Duration("for", time.Second, "that they play")
	film := flags.Int64("film", 0, "bytes of the film")
	flags.Parse(args)
	bytes := *rate * 1e6 / 8
	began, used := time.Now(), cpuSince(*pid)
	end := began.Add(*length)
	var all sync.WaitGroup
	players := make([]player, *clients)
	for i := range players {
		players[i] = player{rate: bytes, first: bytes * first.Seconds()}
		all.Go(func() {
			// They come one after another in the first fifth.
			time.Sleep(*length / 5 * time.Duration(i) / time.Duration(*clients))
			check(players[i].play(*addr, *path, *film/int64(*clients)*int64(i), end))
		})
	}
	all.Wait()
	cpu := must(used())
	starved, received := 0, 0.0
	for i := range players {
		if players[i].starved {
			starved++
		}
		received += players[i].received
	}
	emit := emitAt(out, *rate)
	emit("starved", "1", float64(starved))
	emit("cpu-per-client", "ms/s", cpu.Seconds()*1000/time.Since(began).Seconds()/float64(*clients))
	emit("throughput", "MB/s", received/1e6/time.Since(began).Seconds())
}

// play plays until end. One that has not begun to play by then has starved.
func (p *player) play(addr, path string, from int64, end time.Time) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	request := fmt.Sprintf("GET /?from=%d HTTP/1.1\r\nHost: bench\r\n\r\n", from)
	if path != "" {
		request = fmt.Sprintf("GET %s HTTP/1.1\r\nHost: bench\r\nRange: bytes=%d-\r\n\r\n", path, from)
	}
	if _, err := io.WriteString(c, request); err != nil {
		return err
	}
	c.SetReadDeadline(end)
	buf := make([]byte, 64<<10)
	for head := true; ; head = false {
		n, err := c.Read(buf)
		now := time.Now()
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			p.look(now)
			p.starved = p.starved || !p.playing
			return nil
		}
		if err == io.EOF && path != "" { // nginx does not begin again: the end of the film was reached
			return nil
		}
		if err != nil {
			return err
		}
		if head {
			if n, err = bodyOf(buf[:n]); err != nil {
				return err
			}
		}
		p.receive(now, n)
	}
}
