// Command bench runs the project's experiments: each measures the runtime side
// by side with what a user would pick instead, in one run on the same machine.
// See usageText for the commands.
//
// A run prints a table and writes DIR/NAME.json and, where a picture helps,
// DIR/NAME.svg. README.md tells how to read them and how to add an experiment.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/internal/flaghelp"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == workerCommand {
		runWorker(os.Args[2:], os.Stdout)
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	cancel()
	var usage *usageError
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Println(usageText)
	case errors.As(err, &usage):
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

const usageText = `usage: bench list
       bench run NAME [-quick] [-rounds N] [-systems A,B] [-out DIR]
       bench run admission [-quick] [-rows A,B] [-systems A,B] [-out DIR]
       bench run suites [-quick] [-rows A,B] [-out DIR]
       bench run soak|sites-soak [-quick] [-for 4h] [-out DIR]
       bench run NAME NAME... [-quick] [-rounds N] [-out RESULTS]
       bench run all [-quick] [-rounds N] [-out RESULTS]
       bench report
       bench compare [-threshold 0.05] BEFORE AFTER`

// command carries out a command line. Tables go to out, progress to progress.
func command(ctx context.Context, args []string, out, progress io.Writer) error {
	if len(args) == 0 {
		return &usageError{usageText}
	}
	name, args := args[0], args[1:]
	if name == "run" {
		o, err := parseRun(args)
		if err != nil {
			return err
		}
		if len(o.several) > 0 {
			return runAll(ctx, o, runExperiment, out, progress)
		}
		return runExperiment(ctx, o, out, progress)
	}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	threshold := 0.05
	if name == "compare" {
		flags.Float64Var(&threshold, "threshold", threshold, "by how much a value may be worse, as a share")
	}
	rest, err := parseFlags(flags, args)
	switch {
	case err != nil:
		return err
	case name == "compare" && len(rest) == 2:
		return compareCommand(rest[0], rest[1], threshold, out)
	case name == "compare":
		return &usageError{fmt.Sprintf("compare takes two results, got %q\n%s", rest, usageText)}
	case len(rest) > 0:
		return &usageError{name + " takes no arguments\n" + usageText}
	}
	switch name {
	case "list":
		return listExperiments(ctx, out)
	case "report":
		document := filepath.Join("docs", "results.md")
		if err := reportCommand(keptFolder, document, out); err != nil {
			return err
		}
		return reportFigures(shownFolder(document), "README.md")
	case "help":
		return flag.ErrHelp
	}
	return &usageError{fmt.Sprintf("unknown command %q\n%s", name, usageText)}
}

type options struct {
	experiment experiment
	several    []experiment // the experiments to run, whose results are kept; none: experiment only
	quick      bool
	rounds     int           // 0: as usual
	length     time.Duration // of a soak; 0: as usual
	dir        string        // "" for a new one below the temporary folder
	rows       names
	systems    names
	args       string // that change what is measured, besides the name and -quick
}

// names are a flag: names with commas between.
type names []string

func (n *names) String() string        { return strings.Join(*n, ",") }
func (n *names) Set(text string) error { *n = strings.Split(text, ","); return nil }

// parseFlags reads flags that stand before, between and after other arguments, and returns the latter.
func parseFlags(flags *flag.FlagSet, args []string) ([]string, error) {
	names, err := flaghelp.Parse(flags, args)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		err = &usageError{err.Error() + "\n" + usageText}
	}
	return names, err
}

// parseRun reads the arguments of run; flags may stand before or after NAME.
func parseRun(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.BoolVar(&o.quick, "quick", false, "end within 45 s")
	flags.IntVar(&o.rounds, "rounds", 0, "how often each point is measured; 0: 4 times, 3 with -quick")
	flags.DurationVar(&o.length, "for", 0, "how long a soak takes; 0: 4 minutes, 25 s with -quick")
	flags.StringVar(&o.dir, "out", "", "folder for the results")
	flags.Var(&o.rows, "rows", "rows of the experiment, with commas between")
	flags.Var(&o.systems, "systems", "systems, with commas between")
	names, err := parseFlags(flags, args)
	if err != nil {
		return o, err
	}
	flags.Visit(func(f *flag.Flag) {
		if f.Name != "quick" && f.Name != "out" {
			o.args = strings.TrimSpace(fmt.Sprintf("%s -%s %v", o.args, f.Name, f.Value))
		}
	})
	known := strings.Join(experimentNames(), ", ")
	switch {
	case len(names) == 0:
		return o, &usageError{"run takes the name of an experiment, or more than one: choose from " + known + ", or all"}
	case o.length < 0 || o.rounds < 0:
		return o, &usageError{fmt.Sprintf("-for %v -rounds %d: want numbers from 0", o.length, o.rounds)}
	case len(names) == 1 && names[0] == "all":
		o.several = experiments
	default:
		for _, name := range names {
			i := slices.IndexFunc(experiments, func(e experiment) bool { return e.name == name })
			if i < 0 {
				return o, &usageError{fmt.Sprintf("no experiment %q: choose from %s", name, known)}
			}
			o.several = append(o.several, experiments[i])
		}
	}
	if len(o.several) > 1 {
		if o.rows != nil || o.systems != nil {
			return o, &usageError{"several experiments have neither -rows nor -systems: what is kept is whole\n" + usageText}
		}
		return o, nil
	}
	o.experiment, o.several = o.several[0], nil
	if o.rows != nil && o.experiment.name != admissionName && o.experiment.name != suitesName {
		return o, &usageError{o.experiment.name + " has no -rows\n" + usageText}
	}
	return o, nil
}
