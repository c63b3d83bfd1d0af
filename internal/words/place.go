package words

import (
	"fmt"
	"path"
	"strings"

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

// PackageOf is the path of a function's package.
func PackageOf(function string) string {
	slash := strings.LastIndexByte(function, '/')
	dot := strings.IndexByte(function[slash+1:], '.')
	if dot < 0 {
		return ""
	}
	return function[:slash+1+dot]
}
