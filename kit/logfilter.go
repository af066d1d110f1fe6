package kit

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// logFilter keeps errors out of the log that are none:
//   - When a manager is asked to stop it gives the Lease back, and now and then logs that as if it had lost it. When it does lose it, Start
//     returns the error.
//   - A request whose caller has cancelled it, as at every stop, has not failed. The caller gets the error as well.
//   - A Lease that is left to expire, or that another replica was faster to take, is logged as information.
type logFilter struct{ logr.LogSink }

// withLogFilter is the logger, or controller-runtime's when there is none, without that error.
func withLogFilter(logger logr.Logger) logr.Logger {
	if logger.GetSink() == nil {
		logger = log.Log
	}
	return logger.WithSink(logFilter{logger.GetSink()})
}

// Error implements logr.LogSink.
func (o logFilter) Error(err error, message string, keysAndValues ...any) {
	released := message == "error received after stop sequence was engaged" && err != nil && err.Error() == "leader election lost"
	cancelled := message == "Unexpected error when reading response body" && errors.Is(err, context.Canceled)
	if released || cancelled {
		return
	}
	switch {
	case errors.Is(err, errFormerLeader):
		o.Info(0, "Not releasing the lease", append(keysAndValues, "reason", err.Error())...)
	case isLostLeaseRace(err, message):
		o.Info(0, "Another replica has taken the lease", keysAndValues...)
	default:
		o.LogSink.Error(err, message, keysAndValues...)
	}
}

// isLostLeaseRace reports whether the elector has found that another replica was faster, which happens whenever two of them start together.
func isLostLeaseRace(err error, message string) bool {
	return message == "Error initially creating lease lock" && apierrors.IsAlreadyExists(err) ||
		message == "Failed to update lease" && apierrors.IsConflict(err)
}

// WithValues implements logr.LogSink.
func (o logFilter) WithValues(keysAndValues ...any) logr.LogSink {
	return logFilter{o.LogSink.WithValues(keysAndValues...)}
}

// WithName implements logr.LogSink.
func (o logFilter) WithName(name string) logr.LogSink { return logFilter{o.LogSink.WithName(name)} }
