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

// levels by the words of the configuration.
var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// logTo makes slog the one way into the log, for us and for the libraries, whichever logger they speak to.
func logTo(out io.Writer, config Logging) *slog.Logger {
	options := &slog.HandlerOptions{Level: levels[config.Level], ReplaceAttr: plain}
	var handler slog.Handler = slog.NewJSONHandler(out, options)
	if config.Format == "text" {
		handler = slog.NewTextHandler(out, options)
	}
	bridge := logr.FromSlogHandler(handler)
	ctrl.SetLogger(bridge)
	klog.SetLogger(bridge)
	logger := slog.New(handler)
	slog.SetDefault(logger)
	// Strangers decide how many lines there are from the servers of net/http, which write to package log, and of gRPC.
	log.SetOutput(&quietWriter{next: slog.NewLogLogger(handler, slog.LevelInfo).Writer()})
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, &quietWriter{next: slog.NewLogLogger(handler, slog.LevelError).Writer()}))
	return logger
}

// plain keeps to the four words of the configuration: the verbosities of logr would be written as DEBUG+3 and the like.
func plain(groups []string, attribute slog.Attr) slog.Attr {
	if attribute.Key != slog.LevelKey || len(groups) > 0 {
		return attribute
	}
	if level, ok := attribute.Value.Any().(slog.Level); ok && level < slog.LevelInfo {
		attribute.Value = slog.StringValue(slog.LevelDebug.String())
	}
	return attribute
}
