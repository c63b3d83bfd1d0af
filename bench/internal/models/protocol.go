// Package models is a key-value server whose threads are arranged in the ways that Voras and
// Žagar compare (Characteristics of Multithreading Models for High-Performance IO Driven
// Network Applications), and its client. For experiments, on Linux.
//
// A request is op (1 get, 2 set), 0, the length of the key (16 bits) and of the value (32
// bits), key, value; a response status (0 good, 1 not there, 2 wrong), three zeros, the length
// of the value (32 bits), value. Numbers are little endian.
package models

import (
	"encoding/binary"
	"errors"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
)

const (
	opGet      = 1
	opSet      = 2
	statusGood = 0
	statusNone = 1
	headBytes  = 8
	maxRequest = 64 << 10
)

var errRequest = errors.New("models: not a request")

// requestBytes is the length of the request that data begins with, 0 if more data is needed to
// know.
func requestBytes(data []byte) (int, error) {
	if len(data) < headBytes {
		return 0, nil
	}
	op, n := data[0], headBytes+int(binary.LittleEndian.Uint16(data[2:]))+int(binary.LittleEndian.Uint32(data[4:]))
	if op != opGet && op != opSet || n > maxRequest {
		return 0, errRequest
	}
	return n, nil
}

func appendRequest(b []byte, op byte, key string, value []byte) []byte {
	b = append(b, op, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(key)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
	return append(append(b, key...), value...)
}

func appendResponse(b []byte, status byte, value []byte) []byte {
	b = append(b, status, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// A Store is the records: a hash table with a lock for each bucket.
type Store struct {
	seed    maphash.Seed
	buckets [256]struct {
		mu sync.Mutex
		m  map[string][]byte // guarded by mu; values are replaced, never changed
	}
}

// NewStore returns an empty store.
func NewStore() *Store {
	s := &Store{seed: maphash.MakeSeed()}
	for i := range s.buckets {
		s.buckets[i].m = make(map[string][]byte)
	}
	return s
}

// Answer carries out a whole request and appends the response to b.
func (s *Store) Answer(b, request []byte) []byte {
	k := headBytes + int(binary.LittleEndian.Uint16(request[2:]))
	key, value := request[headBytes:k], request[k:]
	bucket := &s.buckets[maphash.Bytes(s.seed, key)%uint64(len(s.buckets))]
	bucket.mu.Lock()
	if request[0] == opSet {
		bucket.m[string(key)] = append([]byte(nil), value...)
		bucket.mu.Unlock()
		return appendResponse(b, statusGood, nil)
	}
	value, ok := bucket.m[string(key)]
	bucket.mu.Unlock()
	if !ok {
		return appendResponse(b, statusNone, nil)
	}
	return appendResponse(b, statusGood, value)
}

// Records is how many there are.
const Records = 30_000

// Record returns the key of a record and the length of its value: 10 to 1,000 bytes, their
// logarithm evenly spread.
func Record(i int) (key string, bytes int) {
	share := rand.New(rand.NewPCG(uint64(i), 7)).Float64()
	return "record:" + strconv.Itoa(i), int(math.Exp(math.Log(10) + share*math.Log(100)))
}

// Fill puts all records into a store.
func (s *Store) Fill() {
	var request, response []byte
	for i := range Records {
		key, n := Record(i)
		request = appendRequest(request[:0], opSet, key, make([]byte, n))
		response = s.Answer(response[:0], request)
	}
}
