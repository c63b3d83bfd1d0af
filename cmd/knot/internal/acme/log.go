package acme

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/sharedstore"
)

// A slogCore passes warnings and errors of certmagic on to a log of package slog.
type slogCore struct {
	log   *slog.Logger
	attrs []slog.Attr
}

const (
	// sameEvery and sameMost limit lines with the same message: clients can cause some of them.
	sameEvery = 10 * time.Second
	sameMost  = 10
)

// zapLogger is what certmagic logs to.
func zapLogger(log *slog.Logger) *zap.Logger {
	return zap.New(zapcore.NewSamplerWithOptions(&slogCore{log: log}, sameEvery, sameMost, 0))
}

// Enabled implements zapcore.LevelEnabler: what goes well is told by [Manager.noteEvent].
func (c *slogCore) Enabled(level zapcore.Level) bool { return level >= zapcore.WarnLevel }

// With implements zapcore.Core.
func (c *slogCore) With(fields []zapcore.Field) zapcore.Core {
	return &slogCore{c.log, append(c.attrs[:len(c.attrs):len(c.attrs)], attrsOf(fields)...)}
}

// Check implements zapcore.Core.
func (c *slogCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

// Write implements zapcore.Core.
func (c *slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && (errors.Is(err, context.Canceled) || strings.Contains(err.Error(), sharedstore.Unavailable)) {
			return nil // Close ended it, or sharedstore has said it for all; certmagic keeps the texts of errors only
		}
	}
	level := slog.LevelWarn
	if e.Level >= zapcore.ErrorLevel {
		level = slog.LevelError
	}
	attrs := append(c.attrs[:len(c.attrs):len(c.attrs)], attrsOf(fields)...)
	c.log.LogAttrs(context.Background(), level, "knot: ACME: "+e.Message, attrs...)
	return nil
}

// Sync implements zapcore.Core.
func (c *slogCore) Sync() error { return nil }

func attrsOf(fields []zapcore.Field) (attrs []slog.Attr) {
	for _, f := range fields {
		values := zapcore.NewMapObjectEncoder()
		f.AddTo(values)
		for key, value := range values.Fields {
			attrs = append(attrs, slog.Any(key, value))
		}
	}
	return attrs
}
