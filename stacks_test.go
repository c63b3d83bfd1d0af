package capriccio_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/stackchunk"
)

// stacksProgram links as many chunks as the lines of its standard input say.
func stacksProgram() error {
	site := stackchunk.NewSite("stacks_test", 100<<10)
	return capriccio.Run(context.Background(), func(context.Context) error {
		fmt.Println("ready")
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			site.Call(func() {})
			fmt.Println("done", in.Text())
		}
		return nil
	}, capriccio.WithLoops(1), capriccio.WithHoldLimit(-1))
}

func readStacks(path string) (s capriccio.StackStats, err error) {
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

func TestTheStatisticsOfStackChunksAreWritten(t *testing.T) {
	if !coro.Exact {
		t.Skip("with the portable stubs chunks are never linked")
	}
	path := filepath.Join(t.TempDir(), "stacks.json")
	p, _ := start(t, "stacks", capriccio.EnvStacks+"="+path)
	p.say("link")
	p.signal()
	var s capriccio.StackStats
	if !soon(func() bool {
		var err error
		s, err = readStacks(path)
		return err == nil
	}) {
		t.Fatal("no file after SIGUSR2")
	}
	if s.Links != 1 || s.PID != p.cmd.Process.Pid || len(s.Sites) != 1 || s.Sites[0].Name != "stacks_test" || len(s.Classes) != 1 {
		t.Errorf("after SIGUSR2: %+v; want one link", s)
	}
	p.say("link again")
	stderr := p.end()
	if s, err := readStacks(path); err != nil || s.Links != 2 || s.Unlinks != 2 {
		t.Errorf("at the end: %+v, %v; want two links", s, err)
	}
	if strings.Contains(stderr, "statistics") {
		t.Errorf("standard error: %s", stderr)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("in the folder: %v, %v; want the file alone", left, err)
	}
}

// A program that ends as soon as its runtime is closed has written them, too.
func TestTheStatisticsAreThereWhenNewsRuntimeIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stacks.json")
	t.Setenv(capriccio.EnvStacks, path)
	rt := testenv.Need(capriccio.New(capriccio.WithLoops(1)))(t)
	testenv.Must(t, rt.Close())
	if s, err := readStacks(path); err != nil || s.PID != os.Getpid() {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestAFolderForTheStatisticsIsRefused(t *testing.T) {
	t.Setenv(capriccio.EnvStacks, t.TempDir())
	if rt, err := capriccio.New(); err == nil || !strings.Contains(err.Error(), capriccio.EnvStacks) {
		t.Errorf("error %v, want one that names %s", err, capriccio.EnvStacks)
		if rt != nil {
			rt.Close()
		}
	}
}
