package engine

import (
	"runtime"
	"strings"
	"sync"
)

// Reports show where in the program something happened: not in this module or the standard
// library, which is what stands on top of a stack.

// ownPackages are those of this module that run tasks and make them wait.
var ownPackages = []string{"task.", "ressched.", "netpoll.", "aio.", "stackchunk.", "internal/"}

// libraryRoot is the folder of the standard library's sources, empty if the program is built
// without paths (go build -trimpath).
var libraryRoot = sync.OnceValue(func() (root string) {
	strings.IndexFunc("x", func(rune) bool {
		_, file, _, _ := runtime.Caller(1)
		root, _ = strings.CutSuffix(file, "strings/strings.go")
		return true
	})
	return root
})

// userFrame returns the topmost frame of the program itself in a stack as debug.Stack prints it,
// function and position; empty if there is none.
func userFrame(stack string) string {
	lines := strings.Split(stack, "\n")
	for i := 1; i+1 < len(lines); i++ {
		file, ok := strings.CutPrefix(lines[i+1], "\t")
		if !ok || strings.HasPrefix(lines[i], "\t") {
			continue
		}
		function := lines[i]
		if created, ok := strings.CutPrefix(function, "created by "); ok {
			function = created
		} else if at := strings.LastIndexByte(function, '('); at > 0 {
			function = function[:at]
		}
		if file, _, _ = strings.Cut(file, " +0x"); ofProgram(function, file) {
			return function + " " + file
		}
	}
	return ""
}

// ofProgram reports whether a frame is the program's own: not of the standard library, nor of ownPackages. Their tests count as
// programs. file may have a line number.
func ofProgram(function, file string) bool {
	if own, ok := strings.CutPrefix(function, module); ok {
		return strings.Contains(file, "_test.go:") || !hasPrefixOf(own, ownPackages)
	}
	if root := libraryRoot(); root != "" {
		return !strings.HasPrefix(file, root)
	}
	first, _, _ := strings.Cut(function, "/")
	return strings.HasPrefix(function, "main.") || strings.Contains(first, ".") && strings.Contains(function, "/")
}

// goroutineState is what the first line of a stack says that the goroutine does: running, chan
// receive, syscall and so on.
func goroutineState(stack string) string {
	_, state, ok := strings.Cut(stack, " [")
	if !ok {
		return ""
	}
	state, _, _ = strings.Cut(state, "]")
	state, _, _ = strings.Cut(state, ",")
	return state
}
