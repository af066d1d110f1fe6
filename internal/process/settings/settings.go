// Package settings reads the settings of agents and workers from environment variables. It never reads the environment itself: the
// caller passes os.Getenv or the like.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// A Reader reads variables, and collects what is wrong with them.
type Reader struct {
	getenv   func(string) string
	problems []error
}

// NewReader returns a reader of the variables that getenv returns.
func NewReader(getenv func(string) string) *Reader { return &Reader{getenv: getenv} }

// Text returns the value of a variable, or the default when it is empty.
func (r *Reader) Text(name, byDefault string) string { return cmp.Or(r.getenv(name), byDefault) }

// Number returns the value of a variable as a whole number.
func (r *Reader) Number(name, byDefault string) int {
	text := r.Text(name, byDefault)
	value, err := strconv.Atoi(text)
	if err != nil {
		r.problems = append(r.problems, fmt.Errorf("read environment: %s=%q is not a number", name, text))
		return 0
	}
	return value
}

// Seconds returns the value of a variable as a number of seconds.
func (r *Reader) Seconds(name, byDefault string) time.Duration {
	return time.Duration(r.Number(name, byDefault)) * time.Second
}

// Err returns what is wrong with the variables that were read.
func (r *Reader) Err() error { return errors.Join(r.problems...) }
