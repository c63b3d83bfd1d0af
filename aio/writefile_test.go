//go:build linux

package aio

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/testenv"
	_ "github.com/capriccio-go/capriccio/netpoll" // its pollers
)

func TestWriteFile(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		dir := t.TempDir()
		name := filepath.Join(dir, "file")
		for _, n := range []int{0, 1, 100_000, 10} {
			want := content(n)
			must(t, WriteFile(name, want, 0o640))
			holds(t, name, want)
		}
		testenv.Equal(t, need(os.Stat(name))(t).Mode(), 0o640, "the mode of a new file")
		must(t, os.Chmod(name, 0o640|fs.ModeSetuid))
		must(t, WriteFile(name, nil, 0o600))
		testenv.Equal(t, need(os.Stat(name))(t).Mode(), 0o640|fs.ModeSetuid, "the mode of a file that was there")
		link := filepath.Join(dir, "link")
		must(t, os.Symlink(name, link))
		must(t, WriteFile(link, []byte("new"), 0o600))
		testenv.Equal(t, need(os.Lstat(link))(t).Mode().Type(), 0, "the type of what has replaced the link")
		testenv.ErrorIs(t, WriteFile(dir, nil, 0o600), unix.EISDIR, "writing to a folder")
		none := filepath.Join(dir, "no/file")
		err := WriteFile(none, nil, 0o600)
		testenv.True(t, errors.Is(err, fs.ErrNotExist) && err.(*fs.PathError).Path == none, "writing below what does not exist: %v", err)
		wantNames(t, dir, "file", "link")
	})
}

// ".." behind a symbolic link is the folder above the one that the link leads to.
func TestWriteFileAboveALink(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		dir := t.TempDir()
		real := filepath.Join(dir, "other/real")
		must(t, os.MkdirAll(filepath.Join(real, "sub"), 0o700))
		must(t, os.Symlink("other/real/sub", filepath.Join(dir, "link")))
		synced := ""
		withFault(t, func(op opcode, _ via, fd int32, n int) (int, syscall.Errno) {
			if op == opSync {
				synced, _ = os.Readlink("/proc/self/fd/" + strconv.Itoa(int(fd)))
			}
			return n, 0
		})
		must(t, WriteFile(dir+"/link/../file", []byte("new"), 0o600))
		faults.Store(nil)
		holds(t, filepath.Join(real, "file"), []byte("new"))
		testenv.Equal(t, synced, real, "the folder that was synced")
	})
}

// TestWriteFileKeepsSetuid: the kernel takes the bit off a file that another user than root writes to.
func TestWriteFileKeepsSetuid(t *testing.T) {
	t.Chdir(t.TempDir())
	if os.Getuid() == 0 {
		must(t, os.Chmod(".", 0o777))
		const nobody = 65534
		runtime.LockOSThread() // the user for files is a thread's
		defer runtime.UnlockOSThread()
		unix.Syscall(unix.SYS_SETFSUID, nobody, 0, 0)
		defer unix.Syscall(unix.SYS_SETFSUID, 0, 0, 0)
	}
	must(t, WriteFile("file", []byte("old"), 0o600))
	must(t, os.Chmod("file", 0o755|fs.ModeSetuid))
	must(t, WriteFile("file", []byte("new"), 0o600))
	testenv.Equal(t, need(os.Stat("file"))(t).Mode(), 0o755|fs.ModeSetuid, "the mode of a file that was there")
}

// What is no regular file stays what it is.
func TestWriteFileInPlace(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		dir := t.TempDir()
		name := filepath.Join(dir, "fifo")
		must(t, unix.Mkfifo(name, 0o600))
		reader := need(unix.Open(name, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0))(t)
		defer unix.Close(reader)
		want := content(3000) // for which a pipe has room
		must(t, WriteFile(name, want, 0o600))
		got := make([]byte, 4000)
		n, err := unix.Read(reader, got)
		reads(t, "through the FIFO", got, max(n, 0), err, want, nil)
		testenv.Equal(t, need(os.Lstat(name))(t).Mode().Type(), fs.ModeNamedPipe, "the FIFO's type")
		socket := filepath.Join(dir, "socket")
		must(t, unix.Mknod(socket, unix.S_IFSOCK|0o600, 0))
		testenv.ErrorIs(t, WriteFile(socket, want, 0o600), unix.ENXIO, "writing to a socket")
		wantNames(t, dir, "fifo", "socket")
	})
}

// The kernel's own file systems have regular files, but make no new ones.
func TestWriteFileOfTheKernel(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		const name = "/proc/self/oom_score_adj"
		was := need(ReadFile(name))(t)
		must(t, WriteFile(name, was, 0o600))
		testenv.ErrorIs(t, WriteFile(name, []byte("much"), 0o600), unix.EINVAL, "writing what is no number")
	})
}

func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	list := need(ReadDir(dir))(t)
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
	}
	testenv.True(t, strings.Join(got, " ") == strings.Join(want, " "), "the folder has %q, want %q", got, want)
}

// Whatever step fails, the old content stays and nothing is left beside it.
func TestWriteFileFails(t *testing.T) {
	for _, unnamed := range []bool{true, false} {
		for op := opRead; op < opcodes; op++ {
			if op == opRead || op == opFetch || op == opFunc || op == opClose || op == opStat || op == opUnlink {
				continue
			}
			everywhere(t, func(t *testing.T) {
				dir := t.TempDir()
				name := filepath.Join(dir, "file")
				must(t, os.WriteFile(name, []byte("old"), 0o600))
				opens, linked := 0, false
				withFault(t, func(o opcode, where via, _ int32, n int) (int, syscall.Errno) {
					if o == opOpen && where != viaLoop {
						if opens++; opens == 1 && !unnamed {
							return 0, unix.EISDIR // what old kernels say to O_TMPFILE
						}
					}
					if o == opWrite && where == viaLoop {
						return 0, unix.EOPNOTSUPP
					}
					linked = linked || o == opRename
					if o == op && where != viaLoop && !(op == opSync && linked) {
						return 0, unix.EIO
					}
					return n, 0
				})
				err := WriteFile(name, []byte("new"), 0o600)
				faults.Store(nil)
				got := need(os.ReadFile(name))(t)
				used := op == opOpen || op == opWrite || op == opSync || op == opRename || op == opLink && unnamed
				var failed *fs.PathError
				testenv.True(t, !used || errors.As(err, &failed) && failed.Path == name,
					"with %v failing: %v; want an error with the name of the file", op, err)
				testenv.True(t, (!used || errors.Is(err, unix.EIO) && string(got) == "old") && (used || err == nil && string(got) == "new"),
					"with %v failing: %v, and the file has %q", op, err, got)
				wantNames(t, dir, "file")
			})
		}
	}
}

// Whatever step the end of the runtime finds a WriteFile in, neither a descriptor nor a file is left.
func TestTheEndOfTheRuntimeUndoesAWriteFile(t *testing.T) {
	for _, unnamed := range []bool{true, false} {
		for _, op := range []opcode{opOpen, opWrite, opSync, opLink, opRename} {
			if op == opLink && !unnamed {
				continue // there is no such step
			}
			dir := t.TempDir()
			name := filepath.Join(dir, "file")
			must(t, os.WriteFile(name, []byte("old"), 0o600))
			before := len(testenv.OpenFiles())
			rt := setting{"threads", openThreads, 1}.start(t, func(c *engine.Config) { c.Grace = 200 * time.Millisecond })
			blocked, unwinding := make(chan struct{}), make(chan struct{})
			block := sync.OnceFunc(func() { close(blocked); <-unwinding })
			opens := 0
			withFault(t, func(o opcode, where via, _ int32, n int) (int, syscall.Errno) {
				switch {
				case where == viaLoop:
					return 0, unix.EAGAIN
				case o == opOpen && !unnamed:
					if opens++; opens == 1 {
						return 0, unix.EISDIR // what old kernels say to O_TMPFILE
					}
				}
				if o == op {
					block()
				}
				if o == op && op == opSync { // a real one may take longer than Grace
					return 0, unix.EIO
				}
				return n, 0
			})
			rt.Go(func() { WriteFile(name, []byte("new"), 0o600) })
			rt.Go(func() {
				defer close(unwinding)
				for { // ignores the error of the cancellation
					engine.Sleep(time.Hour)
				}
			})
			<-blocked
			rt.Close()
			testenv.Until(t, fmt.Sprintf("nothing is left after %v, unnamed: %v", op, unnamed), func() bool {
				return len(testenv.OpenFiles()) == before && len(need(os.ReadDir(dir))(t)) == 1
			})
			faults.Store(nil)
			wantNames(t, dir, "file")
		}
	}
}

const childVariable = "AIO_TEST_CHILD"

// writeForEver is the child process: it replaces a file's content over and over.
func writeForEver(dir string) int {
	rt, err := engine.New(engine.Config{Loops: 1, NewPoller: func(int) (engine.Poller, error) { return poller.Epoll() }})
	if err != nil {
		return 1
	}
	rt.Go(func() {
		for i := 0; ; i++ {
			if err := WriteFile(filepath.Join(dir, "file"), signed(i), 0o600); err != nil {
				os.Exit(1)
			}
			if i == 0 {
				os.Stdout.WriteString("go\n")
			}
		}
	}).Join()
	return 1
}

// signed is a content that reports whether it is complete.
func signed(i int) []byte {
	body := content(1 + i*7919%300_000)
	body[0] = byte(i)
	sum := sha256.Sum256(body)
	return append(sum[:], body...)
}

func TestWriteFileIsKilled(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	for range rounds {
		dir := t.TempDir()
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childVariable+"="+dir)
		out := need(child.StdoutPipe())(t)
		must(t, child.Start())
		testenv.Must(t, testenv.Err(out.Read(make([]byte, 3))), "the child process failed")
		<-time.After(time.Duration(rand.IntN(30_000)) * time.Microsecond)
		must(t, child.Process.Signal(syscall.SIGKILL))
		child.Wait()
		got := need(os.ReadFile(filepath.Join(dir, "file")))(t)
		testenv.True(t, len(got) >= sha256.Size && sha256.Sum256(got[sha256.Size:]) == [sha256.Size]byte(got),
			"the file has %d bytes that nobody has written as a whole", len(got))
		list := need(os.ReadDir(dir))(t)
		for _, e := range list {
			testenv.True(t, (e.Name() == "file" || strings.HasPrefix(e.Name(), ".file.tmp-")) && len(list) <= 2, "left in the folder: %v", list)
		}
	}
}
