// Package flaghelp reads and explains the flags of commands.
package flaghelp

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Parse reads flags, which may stand before, between and behind other arguments, and returns the others;
// all that is behind "--" belongs to them. An error says what is wanted; help is flag.ErrHelp.
func Parse(flags *flag.FlagSet, args []string) (others []string, err error) {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	var after []string
	if i := slices.Index(args, "--"); i >= 0 {
		args, after = args[:i], args[i+1:]
	}
	for rest := args; ; rest = flags.Args()[1:] {
		if err := flags.Parse(rest); err != nil {
			return nil, plainly(err, flags)
		}
		if flags.NArg() == 0 {
			return append(others, after...), nil
		}
		others = append(others, flags.Arg(0))
	}
}

// plainly is an error of package flag with what is wanted.
func plainly(err error, flags *flag.FlagSet) error {
	text, vague := strings.CutSuffix(err.Error(), "parse error")
	at := strings.LastIndex(text, " -")
	if f := flags.Lookup(strings.TrimSuffix(text[at+len(" -"):], ": ")); vague && at >= 0 && f != nil {
		return errors.New(text + Wanted(f, err))
	}
	if name, unknown := strings.CutPrefix(text, "flag provided but not defined: -"); unknown {
		var known []string
		flags.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
		if near := Nearest(name, known); near != "" {
			return fmt.Errorf("there is no flag -%s; did you mean -%s?", name, near)
		}
		return fmt.Errorf("there is no flag -%s", name)
	}
	return err
}

// Wanted is the text of err, or, where that is no more than "parse error", what is a value of f.
func Wanted(f *flag.Flag, err error) string {
	if value, ok := f.Value.(flag.Getter); ok && strings.HasSuffix(err.Error(), "parse error") {
		switch value.Get().(type) {
		case time.Duration:
			return "want a time like 30s or 1m30s"
		case bool:
			return "want true or false"
		case int:
			return "want a whole number"
		case float64:
			return "want a number"
		}
	}
	return err.Error()
}

// An Output notes the first error of what is written through it: a text that was asked for, like the help, and
// could not be written is no success. It is used by one goroutine.
type Output struct {
	io.Writer
	Err error
}

func (o *Output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.Err == nil {
		o.Err = err
	}
	return n, err
}

// Code is 0, the exit code of a program that has written all that was asked for; or else failed, and stderr says why.
func (o *Output) Code(failed int, stderr io.Writer, program string) int {
	if o.Err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "%s: %v\n", program, o.Err)
	return failed
}

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
		if len(line) > indent {
			fmt.Fprintln(w, line)
			line = strings.Repeat(" ", indent)
		}
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
