package tlsin

import (
	"bytes"
	"crypto/tls"
	"reflect"
	"sync"
	"unsafe"
)

// KeptInput is how large an input buffer may stay with a connection over TLS that rests, in bytes:
// the requests of most clients fit, and need no new one each time.
const KeptInput = 2 << 10

// inputs is where the buffers of a tls.Conn are, as offsets. crypto/tls never gives them back: a
// handshake leaves 4 KB in them, an upload 17 KB. usable is false where a release of Go has other
// fields; then they stay.
var inputs = findInputs(reflect.TypeFor[tls.Conn]())

type inputsAt struct {
	mutex, raw, input, hand uintptr
	usable                  bool
}

func findInputs(conn reflect.Type) (at inputsAt) {
	at.usable = true
	find := func(in reflect.Type, name string, want reflect.Type) (f reflect.StructField) {
		f, ok := in.FieldByName(name)
		if !ok || len(f.Index) != 1 || want != nil && f.Type != want {
			at.usable = false
		}
		return f
	}
	at.raw = find(conn, "rawInput", reflect.TypeFor[bytes.Buffer]()).Offset
	at.input = find(conn, "input", reflect.TypeFor[bytes.Reader]()).Offset
	at.hand = find(conn, "hand", reflect.TypeFor[bytes.Buffer]()).Offset
	half := find(conn, "in", nil)
	if !at.usable || half.Type.Kind() != reflect.Struct {
		return inputsAt{}
	}
	at.mutex = half.Offset + find(half.Type, "Mutex", reflect.TypeFor[sync.Mutex]()).Offset
	return at
}

// shed lets go of the buffers of t that are larger than most bytes and empty. It takes the lock
// under which t reads, and leaves alone what is being read. Nothing refers to them then: crypto/tls
// itself uses the memory again for the next record. The memory goes to the collector and not to a pool, so a
// view of it that was left somewhere would stay valid and show no other client's data.
func shed(t *tls.Conn, most int) {
	at := inputs
	if !at.usable {
		return
	}
	base := unsafe.Pointer(t)
	mu := (*sync.Mutex)(unsafe.Add(base, at.mutex))
	if !mu.TryLock() {
		return
	}
	defer mu.Unlock()
	raw, input := (*bytes.Buffer)(unsafe.Add(base, at.raw)), (*bytes.Reader)(unsafe.Add(base, at.input))
	if raw.Len() == 0 && input.Len() == 0 && raw.Cap() > most {
		*raw = bytes.Buffer{}
		input.Reset(nil) // it is a view of raw
	}
	if hand := (*bytes.Buffer)(unsafe.Add(base, at.hand)); hand.Len() == 0 && hand.Cap() > most {
		*hand = bytes.Buffer{}
	}
}

// mayHoldMore reports whether t may have taken more out of a record than it has handed over. It is for
// the connection's task.
func mayHoldMore(t *tls.Conn) bool {
	at := inputs
	return !at.usable || (*bytes.Reader)(unsafe.Add(unsafe.Pointer(t), at.input)).Len() > 0
}

// Held is the capacity of the input buffers of a connection that rests, in bytes; -1 if it reads. It is for tests.
func (c *Conn) Held() int {
	at, base := inputs, unsafe.Pointer(c.tls.Load())
	mu := (*sync.Mutex)(unsafe.Add(base, at.mutex))
	if !mu.TryLock() {
		return -1
	}
	defer mu.Unlock()
	raw, hand := (*bytes.Buffer)(unsafe.Add(base, at.raw)), (*bytes.Buffer)(unsafe.Add(base, at.hand))
	return max(raw.Cap(), int((*bytes.Reader)(unsafe.Add(base, at.input)).Size())) + hand.Cap()
}
