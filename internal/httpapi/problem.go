package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
)

// A problem is an error that has a status of HTTP.
type problem struct {
	status int
	text   string
}

func (p problem) Error() string { return p.text }

func refuse(status int, format string, values ...any) error {
	return problem{status, fmt.Sprintf(format, values...)}
}

// Problem is the body of every answer that is none.
type Problem struct {
	Error string `json:"error"`
}

// fail is the answer to a request that has none.
func fail(c *gin.Context, err error) {
	status := statusOf(err)
	if status == http.StatusUnauthorized {
		c.Header("WWW-Authenticate", "Bearer")
	}
	c.Abort()
	c.PureJSON(status, Problem{oneLine(err)})
}

func statusOf(err error) int {
	var known problem
	switch {
	case errors.As(err, &known):
		return known.status
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// oneLine is an error as it is shown, "" for none.
func oneLine(err error) string {
	if err == nil {
		return ""
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}
