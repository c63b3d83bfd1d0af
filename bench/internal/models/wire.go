package models

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// A Protocol is how the client speaks to a server. value is nil for a get.
type Protocol struct {
	request func(b []byte, key string, value []byte) []byte
	// response appends what a good response to a get or set of a value of n bytes begins with, and
	// returns how long it is.
	response func(b []byte, key string, n int, get bool) (head []byte, whole int)
}

// Protocols are our own protocol, memcached's text protocol, and that of Redis, by name.
var Protocols = map[string]Protocol{
	"own": {
		func(b []byte, key string, value []byte) []byte {
			if value == nil {
				return appendRequest(b, opGet, key, nil)
			}
			return appendRequest(b, opSet, key, value)
		},
		func(b []byte, _ string, n int, get bool) ([]byte, int) {
			if !get {
				n = 0
			}
			return binary.LittleEndian.AppendUint32(append(b, statusGood, 0, 0, 0), uint32(n)), headBytes + n
		},
	},
	"memcached": {
		func(b []byte, key string, value []byte) []byte {
			if value == nil {
				return fmt.Appendf(b, "get %s\r\n", key)
			}
			return fmt.Appendf(b, "set %s 0 0 %d\r\n%s\r\n", key, len(value), value)
		},
		func(b []byte, key string, n int, get bool) ([]byte, int) {
			if !get {
				b = append(b, "STORED\r\n"...)
				return b, len(b)
			}
			b = fmt.Appendf(b, "VALUE %s 0 %d\r\n", key, n)
			return b, len(b) + n + len("\r\nEND\r\n")
		},
	},
	"redis": {
		func(b []byte, key string, value []byte) []byte {
			if value == nil {
				return fmt.Appendf(b, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(key), key)
			}
			return fmt.Appendf(b, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(key), key, len(value), value)
		},
		func(b []byte, _ string, n int, get bool) ([]byte, int) {
			if !get {
				b = append(b, "+OK\r\n"...)
				return b, len(b)
			}
			b = append(strconv.AppendInt(append(b, '$'), int64(n), 10), "\r\n"...)
			return b, len(b) + n + len("\r\n")
		},
	},
}
