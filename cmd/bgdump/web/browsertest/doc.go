// Package browsertest tries the page of bgdump in a real browser: a headless Chromium
// that it starts itself. It is a module of its own, so that the project does not depend
// on the driver of the browser.
//
//	cd cmd/bgdump/web/browsertest
//	go test ./...
//
// A Chromium or Chrome that is in the PATH is found; another one is named by
//
//	go test ./... -chromium /opt/chrome/chrome
//	CHROMIUM=/opt/chrome/chrome go test ./...
//
// Where there is none, the tests are skipped, and say so. With -need they fail instead,
// as they do if the one that was named does not start. Run by root, the browser is
// started without its sandbox, as it refuses to start with it.
//
//	go test -run Looks -shots /tmp/shots    # keeps pictures of every view
//	go run ./try                            # serves the page for a look at it oneself
//
// The page is shown a program that is made up, see package sample; a second passes for
// it with each question, and it is asked several times a second, so that the tests wait
// for what they expect to see and never for a fixed time.
package browsertest
