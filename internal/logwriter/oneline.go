package logwriter

import (
	"io"
	"log/slog"
	"strings"
)

// NewLogger returns a Logger to out that writes each record as one line, key=value. OneLine folds a message or a value of
// several lines, such as joined errors or the stack in the message of a library.
func NewLogger(out io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		text := ""
		if err, ok := a.Value.Any().(error); ok {
			text = err.Error()
		} else if a.Value.Kind() == slog.KindString {
			text = a.Value.String()
		}
		if strings.Contains(text, "\n") {
			a.Value = slog.StringValue(OneLine(text))
		}
		return a
	}}))
}

// OneLine returns text as a single line, for an attribute of a log line. Lines are joined by "; ". The frames of a
// stack trace are joined by " < ", innermost first, each as its function and place, without arguments.
func OneLine(text string) string {
	var out strings.Builder
	wasFrame := false
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if line == "" {
			wasFrame = false
			continue
		}
		isFrame := i+1 < len(lines) && strings.HasPrefix(lines[i+1], "\t")
		if isFrame {
			place, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " +0x")
			if arguments := strings.LastIndexByte(line, '('); arguments >= 0 && strings.HasSuffix(line, ")") {
				line = line[:arguments]
			}
			line += " " + place
			i++
		}
		switch {
		case out.Len() == 0:
		case strings.HasSuffix(out.String(), ":"):
			out.WriteByte(' ')
		case isFrame && wasFrame:
			out.WriteString(" < ")
		default:
			out.WriteString("; ")
		}
		out.WriteString(line)
		wasFrame = isFrame
	}
	return out.String()
}
