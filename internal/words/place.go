package words

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
)

// Position is a file without folder, and the line; "" if they are not known.
func Position(file string, line int) string {
	if file == "" || line <= 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d", path.Base(strings.ReplaceAll(file, `\`, "/")), line)
}

// At is a function with its position.
func At(function, file string, line int) string {
	name := funcname.Short(function)
	if p := Position(file, line); p != "" {
		name += " (" + p + ")"
	}
	return name
}

// Path says which functions of the program lead to n, and what they call: "main.gather a.go:7 ← main.ask b.go:9 ← net/http".
// It is "" if that says no more than the place of n.
func Path(n *bgraph.Node) string {
	frames, callee := n.Path(3)
	if len(frames) == 0 || funcname.OfStandardLibrary(frames[len(frames)-1].Function) {
		return ""
	}
	var parts []string
	for i := range frames {
		f := &frames[i]
		parts = append(parts, strings.TrimSpace(funcname.Short(f.Function)+" "+Position(f.File, f.Line)))
	}
	if pkg := PackageOf(callee); pkg != "" && !slices.Contains([]string{"sync", "runtime", "time"}, pkg) && !strings.HasPrefix(pkg, "internal/") {
		parts = append(parts, pkg)
	}
	if len(parts) == 1 {
		return ""
	}
	return strings.Join(parts, " ← ")
}

// PackageOf is the path of a function's package.
func PackageOf(function string) string {
	slash := strings.LastIndexByte(function, '/')
	dot := strings.IndexByte(function[slash+1:], '.')
	if dot < 0 {
		return ""
	}
	return function[:slash+1+dot]
}
