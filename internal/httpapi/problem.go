package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
)

// A problem is an error with an HTTP status.
type problem struct {
	status int
	text   string
}

func (p problem) Error() string { return p.text }

func problemf(status int, format string, values ...any) error {
	return problem{status, fmt.Sprintf(format, values...)}
}

// Problem is the body of every error response.
type Problem struct {
	Error string `json:"error"`
}

// writeError answers a request with an error.
func writeError(c *gin.Context, err error) {
	status := statusOf(err)
	if status == http.StatusUnauthorized {
		c.Header("WWW-Authenticate", "Bearer")
	}
	c.Abort()
	c.PureJSON(status, Problem{oneLine(err)})
}

func statusOf(err error) int {
	var p problem
	switch {
	case errors.As(err, &p):
		return p.status
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// oneLine returns the text of an error on one line, "" for none.
func oneLine(err error) string {
	if err == nil {
		return ""
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}
