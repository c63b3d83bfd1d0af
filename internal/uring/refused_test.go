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
	"unsafe"

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
	if err := refuse(errno, unix.SYS_IO_URING_SETUP); err != nil {
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

// refuse has all threads of the process get errno from a system call (seccomp(2)).
func refuse(errno syscall.Errno, call uint32) error {
	const (
		loadNumber = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS // of the call, at offset 0
		ifEqual    = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		answer     = unix.BPF_RET | unix.BPF_K
		allow      = 0x7fff0000
		fail       = 0x00050000
		forThreads = 1
		filter     = 1
	)
	program := []unix.SockFilter{
		{Code: loadNumber},
		{Code: ifEqual, K: call, Jf: 1},
		{Code: answer, K: fail | uint32(errno)},
		{Code: answer, K: allow},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, e := syscall.Syscall(unix.SYS_SECCOMP, filter, forThreads, uintptr(unsafe.Pointer(prog)))
	if e != 0 {
		return e
	}
	return nil
}
