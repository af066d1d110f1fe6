package kit

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// logFilter keeps out of the log what is not an error:
//   - A manager that stops releases the Lease, and sometimes logs that as a lost Lease. When it really loses the Lease, Start returns the
//     error.
//   - A request that its caller cancelled, as at every stop, has not failed. The caller gets the error as well.
//   - A Lease that expires instead of being released, or that another replica took first, is logged as information.
type logFilter struct{ logr.LogSink }

// withLogFilter returns the logger, or that of controller-runtime if there is none, with the filter.
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
		o.Info(0, "not releasing the lease", append(keysAndValues, "reason", err.Error())...)
	case isLostLeaseRace(err, message):
		o.Info(0, "another replica has taken the lease", keysAndValues...)
	default:
		o.LogSink.Error(err, message, keysAndValues...)
	}
}

// isLostLeaseRace reports whether another replica was faster to take the Lease, which happens whenever two start together.
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
