package main

import (
	"fmt"
	"io"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/nginxconf"
	"github.com/capriccio-go/capriccio/internal/flaghelp"
)

// importCommand writes a configuration that does what one of nginx does, and says which directives it leaves out.
func importCommand(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "knot: want the name of a configuration of nginx: knot import nginx.conf > knot.toml")
		return exitUsage
	}
	conf, err := nginxconf.Load(args[0])
	if err != nil {
		fmt.Fprintln(stderr, "knot:", err)
		return exitFailed
	}
	text, left := nginxconf.Translate(conf)
	out := &flaghelp.Output{Writer: stdout}
	out.Write(text)
	for _, l := range left {
		fmt.Fprintln(stderr, l)
	}
	if code := out.Code(exitFailed, stderr, "knot"); code != exitOK || len(left) == 0 {
		return code
	}
	return exitUsage
}
