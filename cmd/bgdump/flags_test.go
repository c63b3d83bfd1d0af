//go:build linux

package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestHelpIsAsDocumented(t *testing.T) {
	for _, help := range []string{"-help", "--help", "-h", "help"} {
		testenv.Golden(t, "help.txt", []byte(command(t, help, "all").ok(t)))
		short := command(t, help).ok(t)
		testenv.AtMost(t, strings.Count(short, "\n"), 24, "lines of the short help")
		for line := range strings.Lines(command(t, help, "all").ok(t) + short) {
			testenv.AtMost(t, len(strings.TrimRight(line, "\n")), 80, "columns: %s", line)
		}
	}
	flags, _ := new(settings).flags()
	told := map[string]int{}
	for _, group := range helpGroups {
		for name := range strings.FieldsSeq(group.flags) {
			told[name]++
			if flags.Lookup(name) == nil {
				t.Errorf("the help tells of -%s, which there is not", name)
			}
		}
	}
	flags.VisitAll(func(f *flag.Flag) {
		testenv.Equal(t, told[f.Name], 1, "the help tells of -%s N times", f.Name)
	})
}

func TestVersion(t *testing.T) {
	if out := command(t, "version").ok(t); !strings.HasPrefix(out, "bgdump ") || !strings.Contains(out, "go1.") {
		t.Errorf("got %q", out)
	}
}

// What was asked for and could not be written is no success.
func TestHelpThatCannotBeWritten(t *testing.T) {
	full := testenv.Need(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
	defer full.Close()
	for _, flag := range []string{"-help", "-version"} {
		var stderr bytes.Buffer
		code := run(context.Background(), []string{flag}, &surroundings{stdin: strings.NewReader(""), stdout: full, stderr: &stderr, clock: newFakeClock()})
		if code != exitFailed || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%s: exit status %d, %q", flag, code, &stderr)
		}
	}
}

func TestWrongCommandLines(t *testing.T) {
	for args, want := range map[string]string{
		"":                                   "say what to look at",
		"-colour cpu x":                      "there is no flag -colour; did you mean -color?",
		"-x x":                               "there is no flag -x\n",
		"-prune little x":                    "want a number",
		"-svg -dot x":                        "-dot and -svg exclude each other",
		"-svg -http :1 x":                    "-http and -svg exclude each other",
		"-lint -svg x":                       "-lint and -svg exclude each other",
		"-json -lint -svg x":                 "exclude each other",
		"-stacks -svg x":                     "-stacks has no meaning with -svg; it is for tables",
		"-sort now -lint x":                  "-sort has no meaning with -lint; it is for tables",
		"-metric wait x":                     "-metric has no meaning without one of them; it is with -folded",
		"-color wait -folded x":              "-color has no meaning with -folded; it is with -dot, -svg",
		"-keep 3 x":                          "-keep has no meaning",
		"-o f -http :0 x":                    "-o has no meaning with -http",
		"-seconds 3 -record d x":             "-seconds has no meaning with -record",
		"-focus a -record d x":               "-focus has no meaning with -record",
		"-interval 1s x":                     "-interval has no meaning",
		"-interval 1ms -http :0 x":           "want at least 100ms",
		"-interval -1s -http :0 x":           "want at least 100ms",
		"-focus ( x":                         "error parsing regexp",
		"-seconds 0 x":                       "want more than 0",
		"-seconds soon x":                    "want a number of seconds",
		"-seconds 3 x y":                     "-seconds takes one source",
		"-record d -keep-age -1h x":          "-keep-age -1h0m0s",
		"-record d -keep-size 2XB x":         "want a number of bytes, like 500MB",
		"-record d -keep-size 2ɐ x":          "want a number of bytes, like 500MB",
		"-keep-size 2GB x":                   "-keep-size has no meaning",
		"-record d testdata/shop.bgraph x":   "-record needs a running program",
		"x x":                                "both sources are the same",
		"-limit -1 x":                        "-limit -1 is negative",
		"-slowest 0 x":                       "-slowest 0; want a number of requests, 1 to 100",
		"-slowest 101 x":                     "-slowest 101; want a number of requests, 1 to 100",
		"-slowest 3 -requests x":             "-requests and -slowest exclude each other",
		"-slowest 3 -focus main x":           "-focus has no meaning with -slowest",
		"-record d -keep -1 x":               "-keep -1",
		"-timeout 0s x":                      "-timeout 0s",
		"-folded -metric time x":             "want cpu, wait, ready, count or heap",
		"-svg -color red x":                  "want cpu or wait",
		"-sort size x":                       `-sort "size"; want one of node, now`,
		"no-such-file":                       "there is no file no-such-file; a source is",
		"no/such/file":                       "there is no file no/such/file",
		"0":                                  "0 is not the id of a process",
		"99999999999":                        "not the id of a process; for a file of that name, write ./99999999999",
		"ftp://h/":                           "want a URL that begins with http:// or https://",
		"http://":                            "want a URL with a host",
		"http://h:port":                      "this is not a URL",
		"-seconds 1 testdata/shop.bgraph":    "-seconds needs a running program or a folder",
		"-cpu testdata/shop.bgraph":          "-cpu takes a profile beside a trace, and so needs the URL",
		"-record d testdata/shop.bgraph":     "-record needs a running program",
		"-http nowhere testdata/shop.bgraph": "want an address like :8000",
		"-merge a":                           "-merge wants two sources or more",
		"a b c a":                            "a is there twice",
		"-merge testdata/shop.bgraph ../../internal/gotrace/testdata/go1.26.trace": "one is a graph of tasks",
		"testdata": "the folder testdata has no recordings",
	} {
		t.Run(args, func(t *testing.T) { command(t, strings.Fields(args)...).fails(t, want) })
	}
	command(t, "-record", "", "1").fails(t, "-record needs the name of a folder")
	command(t, "").fails(t, "the name of a source is empty")
}

func TestFlagsMayStandBehindTheSource(t *testing.T) {
	set, err := parse([]string{"-timeout", "3s", "a", "-limit=4", "b", "-stacks", "--", "-c"}, nil)
	if err != nil || !slices.Equal(set.sources, []string{"a", "b", "-c"}) || !set.merge {
		t.Fatalf("got %+v, %v; want a, b and -c to be added up", set, err)
	}
	set = testenv.Need(parse([]string{"-timeout", "3s", "a", "-limit=4", "-", "-stacks"}, nil))(t)
	if set.timeout != 3*time.Second || set.limit != 4 || !set.stacks || !slices.Equal(set.sources, []string{"a", "-"}) || set.mode != modeText {
		t.Errorf("got %+v", set)
	}
	set = testenv.Need(parse([]string{"--", "-x"}, nil))(t)
	testenv.EqualSlices(t, set.sources, []string{"-x"}, "behind --")
}

func TestDefaultsDependOnTheMode(t *testing.T) {
	for args, want := range map[string]time.Duration{"-record d 1": 10 * time.Second, "-http :0 1": time.Second, "-http :0 -interval 3s 1": 3 * time.Second} {
		set := testenv.Need(parse(strings.Fields(args), nil))(t)
		testenv.Equal(t, set.interval, want, "%s: interval", args)
	}
	for args, want := range map[string]mode{"1": modeText, "-svg=false 1": modeText, "-svg 1": modeSVG, "-lint -json 1": modeLint, "-json 1": modeJSON} {
		set := testenv.Need(parse(strings.Fields(args), nil))(t)
		if set.mode != want || set.json != (args == "-lint -json 1") {
			t.Errorf("%s: mode %s, json %v; want %s", args, set.mode, set.json, want)
		}
	}
	for text, want := range map[string]int64{"0": 0, "1000": 1000, "3kb": 3072, "5M": 5 << 20, "2GB": 2 << 30} {
		set := testenv.Need(parse([]string{"-record", "d", "-keep-size", text, "1"}, nil))(t)
		testenv.Equal(t, set.keep, retention{number: 1000, size: want}, "-keep-size %s", text)
	}
	for text, want := range map[string]time.Duration{"10": 10 * time.Second, "0.5": 500 * time.Millisecond, "2m": 2 * time.Minute} {
		set := testenv.Need(parse([]string{"-seconds", text, "1"}, nil))(t)
		testenv.Equal(t, set.seconds, want, "-seconds %s", text)
	}
}

// onTerminal runs fn with a terminal of 80 columns, and returns what was written to it.
func onTerminal(t *testing.T, fn func(terminal *os.File)) string {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no pseudo terminals here: ", err)
	}
	defer master.Close()
	fd := int(master.Fd())
	testenv.Must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n := testenv.Need(unix.IoctlGetInt(fd, unix.TIOCGPTN))(t)
	testenv.Must(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	slave := testenv.Need(os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	written := make(chan string)
	go func() {
		var b bytes.Buffer
		_, _ = io.Copy(&b, master) // ends with EIO once nobody has the terminal any more
		written <- b.String()
	}()
	fn(slave)
	slave.Close()
	return <-written
}

func TestAProfileIsNotForTerminals(t *testing.T) {
	onTerminal(t, func(terminal *os.File) {
		sur := &surroundings{stdout: terminal, clock: newFakeClock()}
		commandIn(t, context.Background(), sur, "-pprof", shopFile).fails(t, "write it to a file with -o FILE")
	})
}

func TestTablesInAFileDoNotFitTheTerminal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table")
	onTerminal(t, func(terminal *os.File) {
		commandIn(t, context.Background(), &surroundings{stdout: terminal, clock: newFakeClock()}, "-o", path, shopFile).ok(t)
	})
	if got, want := string(testenv.Need(os.ReadFile(path))(t)), command(t, shopFile).ok(t); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTablesFitTheTerminal(t *testing.T) {
	text := onTerminal(t, func(terminal *os.File) {
		sur := &surroundings{stdout: terminal, clock: newFakeClock()}
		if r := commandIn(t, context.Background(), sur, "-limit", "1", shopFile); r.code != exitOK {
			t.Errorf("%+v", r)
		}
	})
	if !strings.Contains(text, "LOOK AT FIRST") || strings.Contains(text, "edges a loop)x") {
		t.Error(text)
	}
}
