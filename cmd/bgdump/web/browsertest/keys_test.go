package browsertest

import (
	"context"
	"strings"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// codes are keys that stand for no character, by the codes that browsers know them by.
var codes = map[string]int64{
	"Tab": 9, "Enter": 13, "Escape": 27, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36,
	"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Backspace": 8, "Delete": 46,
}

// keyOf presses and releases a key.
func keyOf(key string) chromedp.Action {
	shifted := strings.HasPrefix(key, "Shift+")
	key = strings.TrimPrefix(key, "Shift+")
	return chromedp.ActionFunc(func(ctx context.Context) error {
		down, up := input.DispatchKeyEvent(input.KeyDown).WithKey(key), input.DispatchKeyEvent(input.KeyUp).WithKey(key)
		if code, ok := codes[key]; ok {
			down, up = down.WithCode(key).WithWindowsVirtualKeyCode(code), up.WithCode(key).WithWindowsVirtualKeyCode(code)
			if key == "Enter" {
				down = down.WithText("\r")
			}
		} else {
			down = down.WithText(key)
		}
		if shifted {
			down, up = down.WithModifiers(input.ModifierShift), up.WithModifiers(input.ModifierShift)
		}
		if err := down.Do(ctx); err != nil {
			return err
		}
		return up.Do(ctx)
	})
}
