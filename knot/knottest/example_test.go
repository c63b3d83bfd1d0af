//go:build linux

package knottest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
)

// double answers with the text of the request, twice.
func double(x *knot.Ctx) error {
	text, err := io.ReadAll(x.Body())
	if err != nil {
		return err
	}
	return x.SendString(http.StatusOK, "text/plain", string(text)+string(text))
}

// A test calls the handler with a request, and looks at the response.
func ExampleDo() {
	testDouble := func(t *testing.T) { // in a program a function of its own, whose name begins with Test
		response := knottest.Do(t, double, httptest.NewRequest("POST", "/", nil))
		if response.StatusCode != http.StatusOK {
			t.Errorf("status %d", response.StatusCode)
		}
	}
	_ = testDouble
}
