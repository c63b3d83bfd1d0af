// Command library measures how much stack the parts of the standard library really take
// whose bounds are large, on many inputs, and writes for each the most that was seen, by
// paint.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log"
	"log/slog"
	"maps"
	"math/big"
	mathrand "math/rand"
	"net"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unsafe"
)

const painted = 400 << 10

var (
	rng  *mathrand.Rand
	sink any
)

// paint fills the stack below itself, which nobody uses, and returns where the paint begins.
//
//go:noinline
func paint() uintptr {
	var here uint64
	from := uintptr(unsafe.Pointer(&here)) - painted
	for p := from; p < from+painted-512; p += 8 {
		*(*uint64)(unsafe.Pointer(p)) = 0xa5a5a5a5a5a5a5a5
	}
	return from
}

// touched returns the lowest address from which on there is something else than paint.
//
//go:noinline
func touched(from uintptr) uintptr {
	for p := from; ; p += 8 {
		if *(*uint64)(unsafe.Pointer(p)) != 0xa5a5a5a5a5a5a5a5 {
			return p
		}
	}
}

//go:noinline
func call(f func(int), n int) int {
	from := paint()
	var here byte
	top := uintptr(unsafe.Pointer(&here))
	f(n)
	return int(top - touched(from))
}

type item struct {
	Name  string `json:"name"`
	Price float64
	Tags  map[string][]int
	Next  *item
	When  time.Time
	Any   any
}

func someItem(n int) *item {
	x := &item{Name: strings.Repeat("<x>", n%5), Price: float64(n), Tags: map[string][]int{"a": {n}, "b": nil}, Any: n}
	if n%3 == 0 {
		x.Next = &item{Any: map[string]any{"k": []any{n, "s", nil}}}
	}
	return x
}

type secret int

func (s secret) LogValue() slog.Value { return slog.StringValue("secret " + strconv.Itoa(int(s))) }

type failure struct{ why *item }

func (f failure) Error() string { return fmt.Sprintf("failed: %+v", f.why) }

//go:noinline
func logs(n int) {
	var b bytes.Buffer
	for _, h := range []slog.Handler{slog.NewJSONHandler(&b, nil), slog.NewTextHandler(&b, &slog.HandlerOptions{AddSource: true, Level: slog.LevelDebug})} {
		l := slog.New(h).With("n", n, "item", someItem(n)).WithGroup("g")
		l.Info("text", "item", someItem(n), "secret", secret(n), slog.Group("in", "err", failure{someItem(n)}, "when", time.Now()))
		l.Error("more", "err", errors.Join(io.EOF, failure{nil}), "list", []any{n, someItem(n)})
	}
	log.New(&b, "p ", log.LstdFlags|log.Lshortfile).Printf("%v %+v %q %x", n, someItem(n), []string{"a"}, "b")
	sink = b.Len()
}

//go:noinline
func formats(n int) {
	s := fmt.Sprintf("%v %+v %#v %T %q %x %8.3f %s", someItem(n), someItem(n), *someItem(n), n, "q", []byte("x"), float64(n), failure{someItem(n)})
	var a, b int
	var w string
	k, err := fmt.Sscanf(s[:0]+"12 word 34", "%d %s %d", &a, &w, &b)
	t := tabwriter.NewWriter(io.Discard, 0, 8, 1, ' ', 0)
	fmt.Fprintf(t, "a\tb\t%d\n%s\tc\n", n, s)
	sink = []any{t.Flush(), k, err}
}

//go:noinline
func jsons(n int) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", " ")
	err := e.Encode([]*item{someItem(n), someItem(n + 1)})
	var back []item
	err2 := json.NewDecoder(&b).Decode(&back)
	var loose any
	err3 := json.Unmarshal([]byte(`{"a":[1,2,{"b":null}],"c":1e3}`), &loose)
	text, err4 := json.MarshalIndent(loose, "", "\t")
	sink = []any{err, err2, err3, err4, text, reflect.DeepEqual(back, loose)}
}

var page = template.Must(template.New("page").Funcs(template.FuncMap{"deep": deepFunc}).Parse(
	`{{define "row"}}<tr><td onclick="f({{.Name}})">{{.Price | printf "%.2f"}}</td>{{with .Next}}{{template "row" .}}{{end}}</tr>{{end}}` +
		`<table>{{range $i, $x := .}}{{if $x.Name}}<a href="/{{$x.Name}}">{{deep $i}} {{.Shown 3}} {{.When.Year}}</a>{{end}}{{template "row" $x}}{{end}}</table>`))

// deepFunc is called by reflection.
//
//go:noinline
func deepFunc(n int) string {
	var b [12000]byte
	b[n&7] = 'a'
	return string(b[:n&7])
}

// Shown is a method that is called by reflection.
//
//go:noinline
func (x *item) Shown(n int) (string, error) {
	var b [30000]byte
	b[n] = byte(len(x.Name))
	return string(b[:n]), nil
}

//go:noinline
func templates(n int) {
	var b bytes.Buffer
	err := page.Execute(&b, []*item{someItem(n), someItem(n + 1)})
	if err != nil {
		panic(err)
	}
	t, err := template.New("x").Parse(strings.Repeat("{{if .}}<b>{{.}}</b>{{end}}", 1+n%3))
	if err == nil {
		err = t.Execute(&b, n)
	}
	sink = []any{b.Len(), err}
}

//go:noinline
func gzips(n int) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, 1+n%9)
	data := make([]byte, 1000*(1+n%60))
	for i := range data {
		data[i] = byte(rng.Intn(1 + n%256))
	}
	_, err2 := w.Write(data)
	err3 := w.Close()
	r, err4 := gzip.NewReader(&b)
	back, err5 := io.ReadAll(r)
	sink = errors.Join(err, err2, err3, err4, err5)
	if !bytes.Equal(back, data) {
		panic("gzip")
	}
}

var config = sync(func() *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}, InsecureSkipVerify: true}
})

func sync[T any](f func() T) func() T { v := f(); return func() T { return v } }

//go:noinline
func tlses(n int) {
	a, b := net.Pipe()
	c := config().Clone()
	if n%4 == 0 {
		c.MaxVersion = tls.VersionTLS12
	}
	done := make(chan error, 1)
	go func() {
		client := tls.Client(b, c)
		_, err := client.Write([]byte("hello"))
		done <- errors.Join(err, client.Close())
	}()
	server := tls.Server(a, c)
	text, err := io.ReadAll(server)
	if string(text) != "hello" {
		panic(fmt.Sprint(err, <-done))
	}
	sink = errors.Join(err, <-done)
}

//go:noinline
func tlsClients(n int) {
	a, b := net.Pipe()
	done := make(chan error, 1)
	go func() {
		server := tls.Server(b, config())
		_, err := io.ReadAll(server)
		done <- err
	}()
	client := tls.Client(a, config())
	_, err := client.Write(make([]byte, n))
	sink = errors.Join(err, client.Close(), <-done)
}

//go:noinline
func reflected(n int) {
	out := reflect.ValueOf(deepFunc).Call([]reflect.Value{reflect.ValueOf(n)})
	more := reflect.ValueOf(someItem(n)).MethodByName(os.Args[2]).Call([]reflect.Value{reflect.ValueOf(n & 15)})
	swap := reflect.MakeFunc(reflect.TypeFor[func(int) string](), func(args []reflect.Value) []reflect.Value {
		return []reflect.Value{reflect.ValueOf(deepFunc(int(args[0].Int())))}
	}).Interface().(func(int) string)
	sink = []any{out[0].String(), more[0].Len(), swap(n)}
}

var measured = map[string]func(int){
	"logs": logs, "formats": formats, "jsons": jsons, "templates": templates, "gzips": gzips, "tlses": tlses, "tlsClients": tlsClients, "reflected": reflected,
}

func main() {
	seed, _ := strconv.ParseInt(os.Args[1], 10, 64)
	rng = mathrand.New(mathrand.NewSource(seed))
	done := make(chan bool)
	go func() {
		grow(8)
		for _, name := range slices.Sorted(maps.Keys(measured)) {
			most := 0
			for range 25 {
				most = max(most, call(measured[name], rng.Intn(1000)))
			}
			fmt.Println(name, most)
		}
		close(done)
	}()
	<-done
}

// grow makes the stack large, so that it does not move any more.
//
//go:noinline
func grow(n int) {
	var area [96 << 10]byte
	if n > 0 {
		grow(n - 1)
	}
	sink = area[rng.Intn(len(area))]
}
