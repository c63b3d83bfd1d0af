// Package funcname takes the names of functions apart, as the Go runtime and the compiler make
// them.
package funcname

import (
	"slices"
	"strings"
)

// Runtime are the packages of the runtime itself: a place is named after their caller.
var Runtime = []string{
	"github.com/capriccio-go/capriccio/task.",
	"github.com/capriccio-go/capriccio/ressched.",
	"github.com/capriccio-go/capriccio/internal/engine.",
	"github.com/capriccio-go/capriccio/netpoll.",
	"github.com/capriccio-go/capriccio/aio.",
	"github.com/capriccio-go/capriccio/stackchunk.",
}

// OfRuntime reports whether a function is in one of the packages of Runtime.
func OfRuntime(function string) bool {
	return slices.ContainsFunc(Runtime, func(prefix string) bool { return strings.HasPrefix(function, prefix) })
}

// OfStandardLibrary goes by the first element of the import path, as modules may be called without a dot, too. What has no package, as
// functions of C, counts as if it were.
func OfStandardLibrary(function string) bool {
	path, _, inFolder := strings.Cut(function, "/")
	if name, _, ok := strings.Cut(path, "."); !inFolder {
		if !ok {
			return true
		}
		path = name
	}
	return standard[path]
}

// standard are the folders of GOROOT/src that have packages.
var standard = func() map[string]bool {
	all := map[string]bool{"": true}
	for name := range strings.FieldsSeq(`archive arena bufio builtin bytes cmd cmp compress container context crypto database debug embed encoding errors
		expvar flag fmt go hash html image index internal io iter log maps math mime net os path plugin reflect regexp runtime simd slices sort strconv
		strings structs sync syscall testing text time unicode unique unsafe uuid vendor weak`) {
		all[name] = true
	}
	return all
}()

// What OfHTTP2 calls the method that serves a connection, and the one with which the goroutine of a request begins.
const (
	HTTP2Connection = "(*serverConn).serve"
	HTTP2Request    = "(*serverConn).runHandler"
)

// OfHTTP2 is what a method is called in package golang.org/x/net/http2, such as "(*serverConn).runHandler", or in the copy of that
// package that net/http has: bundled up to Go 1.26, a package below it since. It is empty for other functions.
func OfHTTP2(function string) string {
	for _, spelling := range []string{"net/http.(*http2", "net/http/internal/http2.(*", "golang.org/x/net/http2.(*"} {
		if method, ok := strings.CutPrefix(function, spelling); ok {
			return "(*" + method
		}
	}
	return ""
}

// OfProgram reports whether a function belongs to the program itself, as far as its name and its file tell: to no module with a
// version, and to no vendor folder.
func OfProgram(function, file string) bool {
	return !OfRuntime(function) && !OfStandardLibrary(function) && !strings.Contains(function, "._Cfunc_") &&
		!strings.Contains(file, "@v") && !strings.Contains(file, "/vendor/")
}

// Short is the name of a function without the folders of its package. Of a package whose
// path ends in a major version, such as v2, the name is what stands before that. The linker writes a dot in the last
// element of a path as %2e.
func Short(function string) string {
	function = strings.ReplaceAll(function, "%2e", ".")
	end := strings.IndexByte(function, '[') // type arguments have slashes of their own
	if end < 0 {
		end = len(function)
	}
	last := strings.LastIndexByte(function[:end], '/')
	short := function[last+1:]
	if pkg, _, _ := strings.Cut(short, "."); last > 0 && len(pkg) > 1 && pkg[0] == 'v' && strings.Trim(pkg[1:], "0123456789") == "" {
		return function[strings.LastIndexByte(function[:last], '/')+1:last] + short[len(pkg):]
	}
	return short
}
