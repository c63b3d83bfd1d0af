//go:build linux

package recorder

import (
	"hash/fnv"
	"io"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
)

// maxPath is how many frames of a call path are kept, and count for its key.
const maxPath = 64

// reservedKeys are the keys that are no hashes.
const reservedKeys = 16

const (
	modulePath = "github.com/capriccio-go/capriccio/"
	enginePath = modulePath + "internal/engine."
)

// parking are the functions of the engine between the one in which a task waits and the recorder.
var parking = map[string]bool{
	enginePath + "(*Loop).meet":        true,
	enginePath + "(*Loop).record":      true,
	enginePath + "(*Waiter).Wait":      true,
	enginePath + "(*Waiter).Park":      true,
	enginePath + "(*Waiter).WaitUntil": true,
	enginePath + "(*Waiter).WaitFully": true,
	enginePath + "(*Waiter).Absorb":    true,
	enginePath + "(*Task).beginPark":   true,
	enginePath + "(*Task).park":        true,
	enginePath + "(*Task).unwind":      true,
	enginePath + "(*Task).endParkSlow": true,
}

// root is the function below the one that a task was started with.
const root = enginePath + "(*worker).runTasks"

// On a linked stack chunk, the functions called there stand above chunkRoot; the path goes on at chunkCall, in the
// caller's part, which the loop appends. Of what lies between the two, only the call that people write is kept.
const (
	chunkRoot = modulePath + "internal/chunk.(*Chunk).serve"
	chunkCall = modulePath + "stackchunk.Call"
	siteCall  = modulePath + "stackchunk.(*Site).Call"
)

// newPlace makes the place of a wait from the program counters of its stack, which are
// copied.
func newPlace(why Reason, label string, pcs []uintptr) *place {
	p := &place{reason: why.String(), label: label, pcs: append([]uintptr(nil), pcs...)}
	h := fnv.New64a()
	io.WriteString(h, p.reason+"\x00"+label)
	for _, f := range p.symbolise() { // only its hash is kept
		io.WriteString(h, keyPart(&f))
	}
	p.key = bgraph.Key(h.Sum64())
	if p.key < reservedKeys {
		p.key += reservedKeys
	}
	return p
}

// stack is the call path, found out once. It is not to be changed.
func (p *place) stack() []bgraph.Frame {
	if f := p.frames.Load(); f != nil {
		return *f
	}
	out := p.symbolise()
	p.frames.Store(&out)
	return out
}

// symbolise is the call path from the function in which the task waits to the one that it
// was started with.
func (p *place) symbolise() []bgraph.Frame {
	if len(p.pcs) == 0 {
		return nil
	}
	var out []bgraph.Frame
	frames := runtime.CallersFrames(p.pcs)
	for linked := false; ; {
		f, more := frames.Next()
		if f.Function == root || len(out) == maxPath {
			break
		}
		switch {
		case f.Function == chunkRoot:
			linked = true
		case linked:
			linked = f.Function != chunkCall && f.Function != siteCall
		}
		if f.Function != "" && !linked && !isCallOut(f.Function) && (len(out) > 0 || !isParking(f.Function)) {
			if isCall(f.Function) && !slices.ContainsFunc(out, func(f bgraph.Frame) bool { return !carriesOut(f.Function) }) {
				out = out[:0] // what the runtime does for the call does not count
			}
			out = append(out, bgraph.Frame{Function: f.Function, File: f.File, Line: f.Line, Offset: f.Line - firstLine(f)})
		}
		if !more {
			break
		}
	}
	return out
}

// isCallOut reports whether function only calls the program's code for another of the runtime.
func isCallOut(function string) bool {
	name, ok := strings.CutPrefix(function, enginePath)
	return ok && (strings.HasPrefix(name, "Outside[") || name == "CallPlain" || strings.HasPrefix(name, "Call["))
}

// callPaths are the packages whose exported functions programs call to wait. What these call until the task
// waits is of these packages, or of the engine.
var callPaths = []string{modulePath + "task.", modulePath + "ressched."}

// carriesOut reports whether function may be called for a call of callPaths.
func carriesOut(function string) bool {
	return strings.HasPrefix(function, enginePath) ||
		slices.ContainsFunc(callPaths, func(path string) bool { return strings.HasPrefix(function, path) })
}

// isCall reports whether function is one that programs call: an exported one of callPaths.
func isCall(function string) bool {
	if strings.HasPrefix(function, enginePath) || !carriesOut(function) {
		return false
	}
	name := strings.ReplaceAll(function, "[...]", "")
	first, _ := utf8.DecodeRuneInString(name[strings.LastIndexByte(name, '.')+1:])
	return unicode.IsUpper(first) // else a function literal, or what one of these packages calls itself
}

func isParking(function string) bool {
	return strings.HasPrefix(function, modulePath) && parking[function]
}

// firstLine is the line where the function of f begins. For an inlined function only
// the Go runtime knows it; it is in the Frame, though not exported.
func firstLine(f runtime.Frame) int {
	if v := reflect.ValueOf(f).FieldByName("startLine"); v.IsValid() && v.CanInt() && v.Int() > 0 {
		return int(v.Int())
	}
	if f.Func != nil {
		_, line := f.Func.FileLine(f.Func.Entry())
		return line
	}
	return f.Line
}

// keyPart is what a frame adds to the key of its place: the name of the function and the
// offset of the line, for functions of the runtime only the name, so that a new version of it
// leaves the key as it is. The name of a function literal, and even its package, depends on
// the release of the compiler and on what that has inlined; a literal counts by the function
// that it is written in, its file and its line.
func keyPart(f *bgraph.Frame) string {
	in, literal := funcname.Enclosing(f.Function)
	switch {
	case literal && (funcname.OfRuntime(f.Function) || inRuntimeFolder(f.File)):
		return "\x00" + in + "\x00" + path.Base(filepath.ToSlash(f.File))
	case literal:
		return "\x00" + in + "\x00" + path.Base(filepath.ToSlash(f.File)) + ":" + strconv.Itoa(f.Line)
	case funcname.OfRuntime(f.Function):
		return "\x00" + f.Function
	}
	return "\x00" + f.Function + "\x00" + strconv.Itoa(f.Offset)
}

// inRuntimeFolder reports whether a source file is one of a package in funcname.Runtime. A literal of theirs that was
// inlined elsewhere may have the name of another package.
func inRuntimeFolder(file string) bool {
	return slices.Contains(runtimeFolders(), path.Dir(filepath.ToSlash(file)))
}

var runtimeFolders = sync.OnceValue(func() (folders []string) {
	f := runtime.FuncForPC(reflect.ValueOf(New).Pointer())
	file, _ := f.FileLine(f.Entry())
	root, _ := strings.CutSuffix(path.Dir(filepath.ToSlash(file)), "/internal/recorder")
	for _, prefix := range funcname.Runtime {
		folders = append(folders, path.Join(root, strings.TrimSuffix(strings.TrimPrefix(prefix, modulePath), ".")))
	}
	return folders
})
