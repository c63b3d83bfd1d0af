package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// byGoroutine has a goroutine for each connection.
func byGoroutine(addr string, m *movie) error {
	file, err := os.OpenFile(m.name, os.O_RDONLY|unix.O_DIRECT, 0)
	if errors.Is(err, unix.EINVAL) {
		file, err = os.Open(m.name)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("listening", ln.Addr())
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			play(c, file, m, getBuffer(), func(d time.Duration) error { time.Sleep(d); return nil })
		}()
	}
}
