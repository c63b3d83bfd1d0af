package main

import (
	_ "embed"
	"fmt"
	"io"

	"github.com/capriccio-go/capriccio/internal/flaghelp"
)

// schema is the JSON schema of the configuration file. A test makes it of the flags, the structs of the tables and the
// documents.
//
//go:embed knot-config.schema.json
var schema string

// schemaCommand writes the schema of the configuration file, for editors.
func schemaCommand(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		fmt.Fprintln(stderr, "knot: knot schema has no arguments; it writes the JSON schema of the configuration file")
		return exitUsage
	}
	out := &flaghelp.Output{Writer: stdout}
	io.WriteString(out, schema)
	return out.Code(exitFailed, stderr, "knot")
}
