package operator

import (
	"io"
	"log"
	"log/slog"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// levels by their names in the configuration.
var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// newLogger makes slog the only way into the log, for us and for libraries, whichever logger they use.
func newLogger(out io.Writer, config Logging) *slog.Logger {
	options := &slog.HandlerOptions{Level: levels[config.Level], ReplaceAttr: normalizeLevel}
	var handler slog.Handler = slog.NewJSONHandler(out, options)
	if config.Format == "text" {
		handler = slog.NewTextHandler(out, options)
	}
	bridge := logr.FromSlogHandler(handler)
	ctrl.SetLogger(bridge)
	klog.SetLogger(bridge)
	logger := slog.New(handler)
	slog.SetDefault(logger)
	// Anyone on the network decides how much the servers of net/http, which write to package log, and of gRPC log.
	log.SetOutput(&throttledWriter{next: slog.NewLogLogger(handler, slog.LevelInfo).Writer()})
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard,
		&throttledWriter{next: slog.NewLogLogger(handler, slog.LevelError).Writer()}))
	return logger
}

// normalizeLevel maps levels to the four of the configuration: the verbosities of logr would appear as DEBUG+3 and the like.
func normalizeLevel(groups []string, attribute slog.Attr) slog.Attr {
	if attribute.Key != slog.LevelKey || len(groups) > 0 {
		return attribute
	}
	if level, ok := attribute.Value.Any().(slog.Level); ok && level < slog.LevelInfo {
		attribute.Value = slog.StringValue(slog.LevelDebug.String())
	}
	return attribute
}
