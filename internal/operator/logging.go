package operator

import (
	"io"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// levels by the words of the configuration.
var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// logTo makes slog the one way into the log, for us and for the libraries that speak logr or klog.
func logTo(out io.Writer, config Logging) *slog.Logger {
	options := &slog.HandlerOptions{Level: levels[config.Level]}
	var handler slog.Handler = slog.NewJSONHandler(out, options)
	if config.Format == "text" {
		handler = slog.NewTextHandler(out, options)
	}
	bridge := logr.FromSlogHandler(handler)
	ctrl.SetLogger(bridge)
	klog.SetLogger(bridge)
	return slog.New(handler)
}
