//go:build linux

package uring

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"golang.org/x/sys/unix"
)

// refuseVariable makes the test binary a child in which io_uring_setup(2) fails.
const refuseVariable = "URING_TEST_REFUSE"

func TestMain(m *testing.M) {
	if what := os.Getenv(refuseVariable); what != "" {
		os.Exit(refusedChild(what))
	}
	os.Exit(m.Run())
}

// What containers do: a seccomp filter answers for the kernel.
func TestRefusedBySeccomp(t *testing.T) {
	for name, want := range map[string]string{
		"EPERM":  "forbidden by a seccomp filter",
		"ENOSYS": "has no io_uring",
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), refuseVariable+"="+name)
		out, err := cmd.CombinedOutput()
		text := string(out)
		if strings.Contains(text, "no filter") {
			t.Skip(text)
		}
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: %v\n%s\nwant %q", name, err, text, want)
		}
	}
}

func refusedChild(what string) int {
	errno := map[string]syscall.Errno{"EPERM": unix.EPERM, "ENOSYS": unix.ENOSYS}[what]
	if err := testenv.Refuse(unix.SYS_IO_URING_SETUP, errno); err != nil {
		fmt.Println("no filter can be set here:", err)
		return 0
	}
	d, err := NewDriver(Config{})
	if d != nil || !errors.Is(err, errno) {
		fmt.Printf("got %v, %v; want %v\n", d, err, errno)
		return 1
	}
	fmt.Println(err)
	return 0
}
