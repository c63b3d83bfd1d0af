package words

import "strings"

// ProgramStack returns a stack as the Go runtime prints it, without the calls of the Go runtime
// and of package engine at its inner end. It returns "" if a goroutine of iter.Pull has no other
// calls, as at the end of a task, and the whole stack if any other goroutine has none.
func ProgramStack(stack string) string {
	stack = strings.TrimSpace(stack)
	rest := stack
	if first, after, ok := strings.Cut(rest, "\n"); ok && strings.HasPrefix(first, "goroutine ") {
		rest = after
	}
	for ofGoRuntime(rest) {
		_, after, _ := strings.Cut(rest, "\n")
		_, after, ok := strings.Cut(after, "\n") // the place
		if !ok {
			return stack
		}
		rest = after
	}
	if strings.HasPrefix(rest, "created by iter.Pull") {
		return ""
	}
	return rest
}

func ofGoRuntime(call string) bool {
	for _, prefix := range []string{"runtime.", "runtime/debug.", "internal/runtime/", "asyncPreempt", "gopreempt", "github.com/capriccio-go/capriccio/internal/engine.", "iter.Pull"} {
		if strings.HasPrefix(call, prefix) {
			return true
		}
	}
	return false
}
