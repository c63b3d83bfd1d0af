//go:build linux

package capriccio_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// The README's commands do what it says, as they stand there. Those that are marked *once published* need a release.
func TestReadmeCommands(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "overload.svg")
	checks := map[string]func(t *testing.T, command string){
		"go run ./examples/convoy &":                      nil, // examples/convoy tests it and the next, on a port of its own
		"go run ./cmd/bgdump -lint http://localhost:6060": nil,
		"go run ./cmd/knot ./knot/testdata/site": func(t *testing.T, command string) {
			response, _ := testenv.Get(t, http.DefaultClient, runBeside(t, command+" -addr 127.0.0.1:0"))
			testenv.Equal(t, response.StatusCode, http.StatusOK, "status")
		},
		"go test ./...": nil, // this is part of it
		"go run ./examples/overload -url http://127.0.0.1:8080/ -rate 2000": func(t *testing.T, command string) {
			var asked atomic.Bool // the first request is the command's look whether the server answers
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked.Swap(true) {
					http.NotFound(w, r)
				}
			}))
			t.Cleanup(server.Close)
			command = strings.Replace(command, "http://127.0.0.1:8080/ -rate 2000", server.URL+" -rate 20 -phase 1s", 1)
			testenv.Contains(t, testenv.Run(t, "", nil, "sh", "-c", command), "second 1: 0 answered within 100 ms, 0 refused with 503, 20 later or not at all")
		},
		"go run ./examples/overload -o overload.svg": func(t *testing.T, command string) {
			testenv.NeedsFull(t, "it loads the machine for half a minute")
			out := testenv.Run(t, "", nil, "sh", "-c", strings.Replace(command, "overload.svg", picture, 1))
			testenv.Contains(t, out, "knot")
			testenv.Contains(t, read(t, picture), "</svg>")
		},
	}
	text := read(t, "README.md")
	const useClone = "go mod edit -require github.com/capriccio-go/capriccio@v0.0.0 -replace github.com/capriccio-go/capriccio="
	checks["go get ."] = nil // with the next
	checks[useClone+"../capriccio"] = func(t *testing.T, _ string) {
		programOfTheReadme(t, text, useClone+testenv.Need(os.Getwd())(t), "go get .")
	}
	for _, block := range blocks(text, "") {
		before, _, _ := strings.Cut(text, block)
		for line := range strings.SplitSeq(block, "\n") {
			if !strings.HasPrefix(line, "go ") || strings.HasSuffix(before, "*Once published:*\n\n```\n") {
				continue
			}
			check, known := checks[line]
			if !known {
				t.Errorf("no test runs %q", line)
			} else if check != nil {
				t.Run(line, func(t *testing.T) { check(t, line) })
			}
		}
	}
}

// programOfTheReadme builds the server that README shows as a module of its own, after the commands.
func programOfTheReadme(t *testing.T, text string, commands ...string) {
	dir := t.TempDir()
	for _, block := range blocks(text, "go") {
		if strings.HasPrefix(block, "package main") {
			testenv.Must(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(block), 0o600))
		}
	}
	env := []string{"GOWORK=off"}
	for _, command := range append(append([]string{"go mod init example.com/shop"}, commands...), "go build") {
		testenv.Run(t, dir, env, "sh", "-c", command)
	}
}

// runBeside builds the program of a command, go run PACKAGE ARGUMENTS…, and starts it. It returns the program's URL when
// that listens on 127.0.0.1. The program ends with the test.
func runBeside(t *testing.T, command string) (url string) {
	t.Helper()
	words, program := strings.Fields(command), filepath.Join(t.TempDir(), "program")
	testenv.Run(t, "", nil, "go", "build", "-o", program, words[2])
	cmd := exec.Command(program, words[3:]...)
	testenv.Must(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGINT)
		cmd.Wait()
	})
	var port int
	testenv.Until(t, command+" listens", func() bool {
		_, err := fmt.Sscanf(strings.Join(listening(cmd.Process.Pid), " "), "0100007F:%x", &port)
		return err == nil
	})
	return fmt.Sprint("http://127.0.0.1:", port)
}
