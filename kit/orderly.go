package kit

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// orderly keeps errors out of the log that are none. When a manager is told to stop it gives the Lease back, and now and then tells of that as if
// it had lost it; when it does lose it, Start returns the error. A Lease that is left to expire is not an error either. And a request whose caller has cancelled it, as at every stop, has not failed: the caller
// gets the error as well.
type orderly struct{ logr.LogSink }

// quietly is the logger, or controller-runtime's when there is none, without that error.
func quietly(logger logr.Logger) logr.Logger {
	if logger.GetSink() == nil {
		logger = log.Log
	}
	return logger.WithSink(orderly{logger.GetSink()})
}

// Error implements logr.LogSink.
func (o orderly) Error(err error, message string, keysAndValues ...any) {
	released := message == "error received after stop sequence was engaged" && err != nil && err.Error() == "leader election lost"
	cancelled := message == "Unexpected error when reading response body" && errors.Is(err, context.Canceled)
	if released || cancelled {
		return
	}
	if errors.Is(err, errFormerLeader) {
		o.Info(0, "Not releasing the lease", append(keysAndValues, "reason", err.Error())...)
		return
	}
	o.LogSink.Error(err, message, keysAndValues...)
}

// WithValues implements logr.LogSink.
func (o orderly) WithValues(keysAndValues ...any) logr.LogSink {
	return orderly{o.LogSink.WithValues(keysAndValues...)}
}

// WithName implements logr.LogSink.
func (o orderly) WithName(name string) logr.LogSink { return orderly{o.LogSink.WithName(name)} }
