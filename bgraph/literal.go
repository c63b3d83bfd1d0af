package bgraph

import (
	"path"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/capriccio-go/capriccio/task"
)

// keyPart is what a frame adds to the key of its place: the name of the function and the
// offset of the line, for functions of the runtime only the name, so that a new version of it
// leaves the key as it is. The name of a function literal, and even its package, depends on
// the release of the compiler and on what that has inlined; a literal counts by the function
// that it is written in, its file and its line.
func (f *Frame) keyPart() string {
	in, literal := Enclosing(f.Function)
	switch {
	case literal && (ofRuntime(f.Function) || inRuntimeFolder(f.File)):
		return "\x00" + in + "\x00" + path.Base(filepath.ToSlash(f.File))
	case literal:
		return "\x00" + in + "\x00" + path.Base(filepath.ToSlash(f.File)) + ":" + strconv.Itoa(f.Line)
	case ofRuntime(f.Function):
		return "\x00" + f.Function
	}
	return "\x00" + f.Function + "\x00" + strconv.Itoa(f.Offset)
}

// Enclosing returns the last name in that of a function, without its package and receiver,
// which is what the function is declared as; and whether what has the name is a function
// literal in there, or the body of a loop over a function. The same literal is called
//
//	main.glob.inl.func3.1 or main.inl.func1.1    (Go 1.26 and 1.27, if inl is inlined in glob)
//	main.(*T).M.(*T).M.func1.func5 or main.(*T).M.func1.func1 or main.(*T).M.func1.1
func Enclosing(function string) (name string, literal bool) {
	parts := nameParts(ShortFunction(function))
	if len(parts) < 2 {
		return function, false
	}
	parts = parts[1:] // without the package
	for {
		last := len(parts) - 1
		if body := strings.LastIndex(parts[last], "-range"); body > 0 {
			parts[last] = parts[last][:body]
		} else if last == 0 || !isLiteralPart(parts[last]) {
			return parts[last], literal
		} else {
			parts = parts[:last]
		}
		literal = true
	}
}

// isLiteralPart reports whether the compiler gives that name to literals: func1, or the 2 of
// func1.2, or wrappers of go and defer statements.
func isLiteralPart(part string) bool {
	for _, prefix := range []string{"func", "gowrap", "deferwrap"} {
		part = strings.TrimPrefix(part, prefix)
	}
	return part != "" && strings.Trim(part, "0123456789") == ""
}

// nameParts cuts a name at its dots, but not at those of type arguments and receivers.
func nameParts(name string) (parts []string) {
	depth, from := 0, 0
	for i := range len(name) {
		switch name[i] {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case '.':
			if depth == 0 {
				parts = append(parts, name[from:i])
				from = i + 1
			}
		}
	}
	return append(parts, name[from:])
}

// inRuntimeFolder reports whether a source file is one of the packages in own. A literal
// of theirs that was inlined elsewhere may have the name of another package.
func inRuntimeFolder(file string) bool {
	return slices.Contains(runtimeFolders(), path.Dir(filepath.ToSlash(file)))
}

var runtimeFolders = sync.OnceValue(func() (folders []string) {
	f := runtime.FuncForPC(reflect.ValueOf(task.Yield).Pointer())
	file, _ := f.FileLine(f.Entry())
	root := path.Dir(path.Dir(filepath.ToSlash(file)))
	for _, prefix := range own {
		folders = append(folders, path.Join(root, strings.TrimSuffix(strings.TrimPrefix(prefix, modulePath), ".")))
	}
	return folders
})
