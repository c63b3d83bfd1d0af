//go:build linux

package knottest_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
	"github.com/capriccio-go/capriccio/task"
)

// greet is a handler as a program has it.
func greet(x *knot.Ctx) error {
	if x.Path() == "/" {
		return knot.Status(http.StatusNotFound)
	}
	return x.SendString(http.StatusOK, "text/plain", "Hello, "+x.Path()[1:]+"!\n")
}

func TestDo(t *testing.T) {
	for _, test := range []struct {
		path   string
		status int
		body   string
	}{
		{"/world", http.StatusOK, "Hello, world!\n"},
		{"/", http.StatusNotFound, ""},
	} {
		response := knottest.Do(t, greet, httptest.NewRequest("GET", test.path, nil))
		testenv.Equal(t, response.StatusCode, test.status, test.path)
		body := testenv.Need(io.ReadAll(response.Body))(t)
		if test.body != "" {
			testenv.Equal(t, string(body), test.body, test.path)
		}
	}
}

// The handler sees the request as the test made it, in a task.
func TestDoPassesTheRequestOn(t *testing.T) {
	request := httptest.NewRequest("POST", "http://shop.example/orders?id=7", strings.NewReader("two cups"))
	request.Header.Set("X-Test", "yes")
	response := knottest.Do(t, func(x *knot.Ctx) error {
		if task.Current() == nil {
			return errors.New("not in a task")
		}
		body, err := io.ReadAll(x.Body())
		if err != nil {
			return err
		}
		return x.SendString(http.StatusAccepted, "text/plain", strings.Join([]string{x.Method(), x.Host(), x.Target(), x.Header("X-Test"), string(body)}, " "))
	}, request)
	testenv.Equal(t, response.StatusCode, http.StatusAccepted, "status")
	testenv.Equal(t, string(testenv.Need(io.ReadAll(response.Body))(t)), "POST shop.example /orders?id=7 yes two cups", "what the handler saw")
}

func TestServe(t *testing.T) {
	url := knottest.Serve(t, &knot.Server{Handler: greet})
	response := testenv.Need(http.Get(url + "/there"))(t)
	defer response.Body.Close()
	testenv.Equal(t, string(testenv.Need(io.ReadAll(response.Body))(t)), "Hello, there!\n", "body")
}
