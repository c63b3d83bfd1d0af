// Package flaghelp explains the flags of commands.
package flaghelp

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// Write explains the flags of these names, separated by blanks: each beside its name, in lines of 80
// columns, with its default unless that is nothing.
func Write(w io.Writer, flags *flag.FlagSet, names string) {
	const indent, width = 22, 80
	for name := range strings.FieldsSeq(names) {
		f := flags.Lookup(name)
		value, text := flag.UnquoteUsage(f)
		head := "  -" + f.Name
		if value != "" {
			head += " " + strings.ToUpper(value)
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "0s" {
			text += " (default " + f.DefValue + ")"
		}
		line := fmt.Sprintf("%-*s", indent, head)
		for word := range strings.FieldsSeq(text) {
			if len(line)+1+len(word) > width {
				fmt.Fprintln(w, line)
				line = strings.Repeat(" ", indent)
			}
			line += " " + word
		}
		fmt.Fprintln(w, line)
	}
}
