package flaghelp

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// Flagged returns args with the words help and version, where they come first, as the flags of that name.
func Flagged(args []string) []string {
	if len(args) > 0 && (args[0] == "help" || args[0] == "version") {
		return append([]string{"-" + args[0]}, args[1:]...)
	}
	return args
}

// WantsAll reports whether args ask for all of the help, with "-help all"; "-help" alone is what fits on a screen.
func WantsAll(args []string) bool {
	i := slices.IndexFunc(args, func(arg string) bool { return arg == "-help" || arg == "--help" || arg == "-h" })
	return i >= 0 && i+1 < len(args) && args[i+1] == "all"
}

// Version is what the go command noted in the program: the version of its module, the commit that it was built from,
// and the release of Go.
func Version(program string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return program + ", version unknown"
	}
	return versionOf(program, info)
}

func versionOf(program string, info *debug.BuildInfo) string {
	text := program + " " + cmp.Or(info.Main.Version, "(devel)")
	commit, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = ", changed"
		}
	}
	if commit != "" && !strings.Contains(text, commit[:min(12, len(commit))]) { // a version without a tag has it
		text += fmt.Sprintf(" (commit %.12s%s)", commit, changed)
	}
	return fmt.Sprintf("%s, %s %s/%s", text, info.GoVersion, runtime.GOOS, runtime.GOARCH)
}
