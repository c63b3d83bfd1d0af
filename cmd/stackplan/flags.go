package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
	"github.com/capriccio-go/capriccio/internal/flaghelp"
)

// settings is what the command line says.
type settings struct {
	command  string
	patterns []string // packages
	goFlags  []string // behind --

	maxPath, minChunk plan.Bytes
	json              bool
	out               string
	profile, verbose  bool
	keep              string // folder for the rewritten sources
	dump              string
	tags              string
	annotations       string
	rewrite           []string
	all               bool
	allocate          bool

	ctx            context.Context
	stdout, stderr io.Writer
}

// flags are those of one command.
func (set *settings) flags(c command) *flag.FlagSet {
	all := flag.NewFlagSet("", flag.ContinueOnError)
	set.maxPath, set.minChunk = 2<<10, 4<<10
	all.Var(&set.maxPath, "maxpath", "how much stack may be used from one checkpoint to the next, a `size`")
	all.Var(&set.minChunk, "minchunk", "the least `size` of a chunk of stack")
	all.BoolVar(&set.json, "json", false, "write JSON")
	all.StringVar(&set.out, "o", "", "write to this `file`")
	all.BoolVar(&set.profile, "profile", false, "count at every checkpoint; the program writes the counts at its end to the file that CAPRICCIO_STACKS names")
	all.BoolVar(&set.verbose, "v", false, "say more: all checkpoints, and for build and test which calls can have none and why")
	all.StringVar(&set.keep, "keep", "", "write the rewritten sources to this `folder` and leave them there")
	all.StringVar(&set.dump, "dump", "", "compare with the dump of a run in this `file`")
	all.StringVar(&set.tags, "tags", "", "build `tags`, separated by commas")
	all.StringVar(&set.annotations, "annotations", "", "a `file` that says how much stack functions need that can't be looked into")
	all.Func("rewrite", "import path `patterns` like example.com/mod/... of the packages that may get checkpoints, separated by commas; if not given, those of the main module", func(patterns string) error {
		if set.rewrite = strings.Split(patterns, ","); patterns == "" {
			return errors.New("want one or more, separated by commas")
		}
		return nil
	})
	all.BoolVar(&set.all, "all", false, "look at everything, and not only at what tasks run")

	all.BoolVar(&set.allocate, "allocate", false, "leave checkpoints for which a variable must be on the heap although the stack has room; others are chosen if not")

	own := flag.NewFlagSet(c.name, flag.ContinueOnError)
	for name := range strings.FieldsSeq(c.flags) {
		f := all.Lookup(name)
		own.Var(f.Value, f.Name, f.Usage)
		own.Lookup(name).DefValue = strings.ReplaceAll(f.DefValue, " ", "") // sizes, as they are given
	}
	return own
}

// errHelp means that help was asked for and given.
var errHelp = errors.New("help was written")

// parse reads the command line.
func parse(args []string, stdout, stderr io.Writer) (*settings, command, error) {
	set := &settings{stdout: stdout, stderr: stderr}
	if len(args) == 0 {
		return nil, command{}, fmt.Errorf("say what to do: stackplan COMMAND, where COMMAND is one of %s", commandNames())
	}
	name := strings.TrimLeft(args[0], "-")
	args = args[1:]
	switch name {
	case "version":
		fmt.Fprintln(stdout, flaghelp.Version("stackplan"))
		return nil, command{}, errHelp
	case "help", "h":
		if len(args) == 0 {
			io.WriteString(stdout, usage)
			return nil, command{}, errHelp
		}
		name, args = args[0], []string{"-help"}
	}
	c, ok := find(name)
	if !ok {
		return nil, c, fmt.Errorf("%q is no command; want one of %s", name, commandNames())
	}
	set.command = c.name
	flags := set.flags(c)
	if i := slices.Index(args, "--"); i >= 0 {
		set.goFlags = args[i+1:]
		args = args[:i]
	}
	patterns, err := flaghelp.Parse(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		writeCommandHelp(stdout, c, flags)
		return nil, c, errHelp
	case err != nil:
		return nil, c, fmt.Errorf("stackplan %s: %w (stackplan help %s lists its flags)", c.name, err, c.name)
	}
	set.patterns = patterns
	return set, c, set.check(flags)
}

// check looks at values and at what excludes each other.
func (set *settings) check(flags *flag.FlagSet) error {
	switch {
	case set.maxPath < 256 && flags.Lookup("maxpath") != nil:
		return fmt.Errorf("-maxpath %s is less than a checkpoint itself may take; want at least 256B", set.maxPath)
	case set.minChunk > 64<<20:
		return fmt.Errorf("-minchunk %s; want at most 64MB", set.minChunk)
	case len(set.goFlags) > 0 && set.command != "build" && set.command != "test":
		return fmt.Errorf("flags behind -- are for go build and go test; stackplan %s calls neither", set.command)
	}
	for _, f := range set.goFlags {
		name, _, _ := strings.Cut(strings.TrimLeft(f, "-"), "=")
		if !strings.HasPrefix(f, "-") {
			continue
		}
		if name == "args" {
			break // what follows is for the test binary
		}
		switch name {
		case "overlay":
			return errors.New("-overlay is how stackplan hands over the rewritten sources; it can't be given besides")
		case "o":
			return errors.New("-o must stand before the --")
		case "tags":
			return errors.New("-tags must stand before the --, as it decides which files there are")
		}
	}
	if n := len(set.patterns); set.command != "test" && n > 1 {
		return fmt.Errorf("stackplan %s takes one package, not %d", set.command, n)
	}
	return nil
}
