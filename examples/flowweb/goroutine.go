package main

import (
	"fmt"
	"net"
	"os"
)

// byGoroutine has a goroutine for each connection.
func byGoroutine(addr, root string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("listening", ln.Addr())
	return serveByGoroutine(ln, root)
}

func serveByGoroutine(ln net.Listener, root string) error {
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go converse(c, root, os.Open)
	}
}
