package h1

import (
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestEveryStatusLineHasAPhrase(t *testing.T) {
	for code := FirstStatus; code <= WidestStatus; code++ {
		line := StatusLine(code)
		if _, phrase, _ := strings.Cut(line[len("HTTP/1.1 "):], " "); len(strings.TrimSpace(phrase)) == 0 {
			t.Errorf("%d: %q", code, line)
		}
	}
}

func TestFieldsAreTrimmed(t *testing.T) {
	testenv.Equal(t, string(AppendField(nil, "A", " \tb\rc \r\n")), "A: b c\r\n")
}
