package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"syscall"
	"time"
)

// servers are the processes that the libraries are tried against.
type servers struct {
	ctx     context.Context
	dir     string
	addr    map[string]string // by name
	running []*exec.Cmd
}

// start starts the server of that name, if it does not run yet.
func (s *servers) start(name string) error {
	if name == "" || s.addr[name] != "" {
		return nil
	}
	if name == "peers" {
		return s.startPeers()
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	dir := filepath.Join(s.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	start := map[string]func(dir, port string) error{
		"redis": func(dir, port string) error {
			return s.run(dir, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--maxclients", "10000", "--dir", dir)
		},
		"memcached": func(dir, port string) error {
			args := []string{"-l", "127.0.0.1", "-p", port, "-c", "8000"}
			if os.Getuid() == 0 {
				args = append(args, "-u", "nobody")
			}
			return s.run(dir, "memcached", args...)
		},
		"postgres": s.postgres,
		"mysql":    s.mysql,
	}[name]
	if err := start(dir, port); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	addr := "127.0.0.1:" + port
	if err := s.answers(addr); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.addr[name] = addr
	return nil
}

func (s *servers) postgres(dir, port string) error {
	const bin = "/usr/lib/postgresql/15/bin/" // Debian's; what is first in PATH may be another
	data := filepath.Join(dir, "data")
	if err := s.finish(dir, bin+"initdb", "-D", data, "-U", "libs", "-A", "trust", "-N", "--no-locale", "-E", "UTF8"); err != nil {
		return err
	}
	return s.run(dir, bin+"postgres", "-D", data, "-p", port, "-h", "127.0.0.1", "-k", dir, "-F", "-N", "300")
}

func (s *servers) mysql(dir, port string) error {
	data := filepath.Join(dir, "data")
	if err := s.finish(dir, "mariadb-install-db", "--no-defaults", "--datadir="+data, "--skip-test-db", "--auth-root-authentication-method=normal"); err != nil {
		return err
	}
	return s.run(dir, "mariadbd", "--no-defaults", "--datadir="+data, "--bind-address=127.0.0.1", "--port="+port,
		"--socket="+filepath.Join(dir, "sock"), "--skip-grant-tables", "--max-connections=300", "--innodb-flush-log-at-trx-commit=0")
}

func freePort() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	return port, err
}

// command is a program that ends with this process. If this process runs as root, the program runs as user "nobody".
func (s *servers) command(dir, name string, args ...string) (*exec.Cmd, error) {
	if found, err := exec.LookPath(name); err == nil {
		name = found
	} else if found, err := exec.LookPath("/usr/sbin/" + name); err == nil {
		name = found
	} else {
		return nil, fmt.Errorf("%s is not installed (Debian: redis-server, postgresql, mariadb-server, memcached)", name)
	}
	cmd := exec.CommandContext(s.ctx, name, args...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if os.Getuid() == 0 {
		nobody, err := user.Lookup("nobody")
		if err != nil {
			return nil, err
		}
		as := &syscall.Credential{}
		if _, err := fmt.Sscan(nobody.Uid+" "+nobody.Gid, &as.Uid, &as.Gid); err != nil {
			return nil, err
		}
		if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
			return nil, err
		}
		cmd.SysProcAttr.Credential = as
	}
	return cmd, nil
}

// finish runs a program to its end.
func (s *servers) finish(dir, name string, args ...string) error {
	cmd, err := s.command(dir, name, args...)
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}

// run starts a program that goes on until stop.
func (s *servers) run(dir, name string, args ...string) error {
	cmd, err := s.command(dir, name, args...)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	s.running = append(s.running, cmd)
	return nil
}

// answers waits until something accepts connections at addr.
func (s *servers) answers(addr string) error {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			return c.Close()
		}
		if s.ctx.Err() != nil || time.Since(began) > time.Minute {
			return err
		}
	}
}

// startPeers starts the servers that are libraries of Go, on goroutines of a process of their own.
func (s *servers) startPeers() error {
	cmd := exec.CommandContext(s.ctx, "/proc/self/exe", "peers")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.running = append(s.running, cmd)
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the servers of Go: %w", err)
	}
	s.addr["peers"] = "started"
	return json.Unmarshal(line, &s.addr)
}

// stop ends all servers and waits for them.
func (s *servers) stop() {
	for _, cmd := range s.running {
		syscall.Kill(cmd.Process.Pid, syscall.SIGTERM)
	}
	for _, cmd := range s.running {
		late := time.AfterFunc(10*time.Second, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		cmd.Wait()
		late.Stop()
	}
}
