package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/addresses"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/internal/flaghelp"
)

// commands are what knot does besides serving, by the first argument.
var commands = map[string]func(args []string, stdin io.Reader, stdout, stderr io.Writer) int{
	"check":  checkCommand,
	"hash":   hashCommand,
	"import": importCommand,
	"schema": schemaCommand,
}

// checkCommand reports what is wrong with a configuration file, without serving.
func checkCommand(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	dump := len(args) == 2 && (args[0] == "-dump" || args[0] == "--dump")
	if dump {
		args = args[1:]
	}
	if len(args) != 1 {
		fmt.Fprintln(stderr, "knot: want the name of a configuration file: knot check FILE, or knot check -dump FILE")
		return exitUsage
	}
	set, err := parse([]string{"-config", args[0]}, stdout)
	if set != nil {
		err = errors.Join(err, set.placed(set.usable()), tryOut(set))
	}
	if err != nil {
		fmt.Fprintln(stderr, strings.TrimPrefix(err.Error(), "knot: "))
		return exitFailed
	}
	out := &flaghelp.Output{Writer: stdout}
	if dump {
		if err := set.writeDump(out); err != nil {
			fmt.Fprintln(stderr, "knot:", err)
			return exitFailed
		}
		return out.Code(exitFailed, stderr, "knot")
	}
	fmt.Fprintf(out, "%s is all right; sites: %d%s\n", args[0], len(set.sites), set.systemdSockets())
	return out.Code(exitFailed, stderr, "knot")
}

// usable looks for what the start would fail on besides what tryOut opens: addresses, the user, and the
// folders of the log, of the dump and of ACME.
func (set *settings) usable() error {
	var errs []error
	if err := addresses.Check(set.server.Addr); err != nil && len(set.listens) == 0 {
		errs = append(errs, fmt.Errorf("addr: %s", explain(&addressError{set.server.Addr, "-addr", err}, set)))
	}
	if err := addresses.CheckTCP(set.admin); err != nil && set.admin != "" {
		errs = append(errs, fmt.Errorf("admin: %s", explain(&addressError{set.admin, adminFlag, err}, set)))
	}
	if set.user != "" {
		if _, err := identityOf(set.user); err != nil {
			errs = append(errs, fmt.Errorf("user: %w", err))
		}
	}
	if set.log != "" && set.log != "-" {
		if _, err := os.Stat(filepath.Dir(set.log)); err != nil {
			errs = append(errs, fmt.Errorf("log: %w", err))
		}
	}
	if _, err := set.dumpFolder(); err != nil {
		errs = append(errs, err)
	}
	if cache := set.tls.acme.Folder; cache != "" { // it need not be there
		if _, err := os.ReadDir(cache); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("acme-cache: %w", err))
		}
	}
	return errors.Join(errs...)
}

// tryOut opens what the settings name, and closes it again.
func tryOut(set *settings) error {
	b, wrong := build(set, slog.New(slog.DiscardHandler))
	if wrong == nil {
		b.close()
	}
	if set.tls.check() != nil {
		return wrong // that has been told
	}
	secure, err := set.tls.open(slog.New(slog.DiscardHandler))
	if err == nil {
		secure.close()
	}
	return errors.Join(wrong, err)
}

// hashCommand makes a line of a file of users, from a password on the standard input.
func hashCommand(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "knot: want the name of a user: knot hash NAME, with the password on the standard input")
		return exitUsage
	}
	if file, ok := stdin.(*os.File); ok && isTerminal(file) {
		fmt.Fprintln(stderr, "Password (it is shown as you type):")
	}
	password, err := bufio.NewReader(io.LimitReader(stdin, 1000)).ReadString('\n')
	line := ""
	if err == nil || errors.Is(err, io.EOF) {
		line, err = site.HashPassword(args[0], []byte(strings.TrimRight(password, "\r\n")))
	}
	if err != nil {
		fmt.Fprintln(stderr, "knot:", err)
		return exitFailed
	}
	out := &flaghelp.Output{Writer: stdout}
	fmt.Fprintln(out, line)
	return out.Code(exitFailed, stderr, "knot")
}

func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
