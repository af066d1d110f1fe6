// Package httpapi answers queries about pools, swarms and tasks over HTTP, as JSON. openapi.json describes it.
//
// It promises that a request changes nothing; that it shows callers only what they can see with kubectl, since every path under /v1
// requires a token, which the API server verifies, and the right to get or list that kind; that the same state gives the same bytes;
// and that every answer is bounded and every rejection is one line with the reason. The jobs of workers count as part of their pool.
//
// It shows the content of the operator's cache, which may be slightly stale. It never logs a request, and never stores, logs or
// repeats a token.
package httpapi

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/limit"
)

const (
	// requestTimeout is how long an answer may take to compute. It is sent in what is left of exchangeTimeout.
	requestTimeout, exchangeTimeout = 20 * time.Second, 30 * time.Second
	// maxConcurrentReads limits concurrent reads: a list of everything takes memory.
	maxConcurrentReads = 4
	// maxHeaderBytes has room for the longest token.
	maxHeaderBytes = 32 << 10
)

//go:embed openapi.json
var openAPIDocument []byte

// Config configures the API.
type Config struct {
	Reader     client.Reader
	Namespaces []string // that Reader has; none: all of them
	Authorizer Authorizer
	Log        *slog.Logger // logs panics only
	Refusals   *limit.Refusals
}

// api is the state that the routes share.
type api struct {
	reader     client.Reader
	namespaces []string
	auth       *authFilter
	readSlots  semaphore
}

// A route is a path under /v1, the right that it needs, and the function that finds what it shows.
type route struct {
	path, verb, resource string
	read                 func(context.Context, query) (any, error)
}

func (a *api) routes() []route {
	return []route{
		{"/v1/pools", "list", "workerpools", a.pools},
		{"/v1/pools/:namespace/:name", "get", "workerpools", a.pool},
		{"/v1/pools/:namespace/:name/workers/:worker", "get", "workerpools", a.worker},
		{"/v1/swarms", "list", "swarms", a.swarms},
		{"/v1/tasks", "list", "tasks", a.tasks},
	}
}

// New returns the handler for all paths.
func New(config Config) http.Handler { return newEngine(config) }

// NewServer limits what a slow or hostile caller can use.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: exchangeTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: maxHeaderBytes,
	}
}

func newEngine(config Config) *gin.Engine {
	gin.SetMode(gin.ReleaseMode) // otherwise it prints every route
	router := gin.New()
	router.HandleMethodNotAllowed, router.RedirectTrailingSlash = true, false
	router.Use(recovery(config.Log))
	router.NoRoute(func(c *gin.Context) {
		writeError(c, problemf(http.StatusNotFound, "there is nothing at %s: see /openapi.json", c.Request.URL.Path))
	})
	router.NoMethod(func(c *gin.Context) {
		writeError(c, problemf(http.StatusMethodNotAllowed, "%s is not allowed: this API only reads", c.Request.Method))
	})
	router.GET("/healthz", func(c *gin.Context) { c.PureJSON(http.StatusOK, gin.H{"status": "ok"}) })
	router.GET("/openapi.json", func(c *gin.Context) { c.Data(http.StatusOK, "application/json; charset=utf-8", openAPIDocument) })
	a := &api{reader: config.Reader, namespaces: config.Namespaces, auth: newAuthFilter(config.Authorizer, config.Refusals),
		readSlots: make(semaphore, maxConcurrentReads)}
	for _, r := range a.routes() {
		router.GET(r.path, a.serve(r))
	}
	return router
}

func (a *api) serve(r route) gin.HandlerFunc {
	return func(c *gin.Context) {
		ctx, cancel := context.WithTimeout(c.Request.Context(), requestTimeout)
		defer cancel()
		result, err := a.answer(ctx, r, c)
		if err != nil {
			writeError(c, err)
			return
		}
		c.Header("Cache-Control", "no-store")
		c.PureJSON(http.StatusOK, result)
	}
}

// answer authenticates and authorizes the caller before anything else.
func (a *api) answer(ctx context.Context, r route, c *gin.Context) (result any, err error) {
	namespace, name := c.Param("namespace"), c.Param("name")
	if r.verb == "list" {
		namespace = c.Query("namespace")
	}
	if err := a.auth.check(ctx, readCredential(c.Request), permission{r.verb, r.resource, namespace, name}); err != nil {
		return nil, err
	}
	if !a.servesNamespace(namespace) {
		return nil, problemf(http.StatusNotFound, "namespace %q is not one of this operator's: %s", namespace, strings.Join(a.namespaces, ", "))
	}
	listPage, err := parsePage(c.Query("limit"), c.Query("continue"))
	if err != nil {
		return nil, err
	}
	q := query{namespace: namespace, name: name, worker: c.Param("worker"), swarm: c.Query("swarm"), page: listPage}
	err = a.readSlots.run(ctx, func() (err error) {
		result, err = r.read(ctx, q)
		return err
	})
	return result, err
}

// servesNamespace reports whether the reader has a namespace; "" stands for all of them.
func (a *api) servesNamespace(namespace string) bool {
	return namespace == "" || len(a.namespaces) == 0 || slices.Contains(a.namespaces, namespace)
}

// A query is the query of an authorized caller.
type query struct {
	namespace, name, worker, swarm string
	page                           page
}

// recovery confines a panic to its request.
func recovery(log *slog.Logger) gin.HandlerFunc {
	return gin.CustomRecoveryWithWriter(nil, func(c *gin.Context, cause any) {
		log.Error("panic in the HTTP API", "path", c.FullPath(), "err", fmt.Sprint(cause), "stack", string(debug.Stack()))
		writeError(c, problemf(http.StatusInternalServerError, "a mistake in the operator: its log has more"))
	})
}
