// Package uplink keeps an agent connected to the operator: it finds an address, proves itself, opens a stream, and when
// that ends opens the next, with growing and jittered pauses between failures.
//
// It promises that there is one stream at a time, that token and CA are read again for each (both are renewed on disk),
// and that nothing here ever blocks the caller. It understands no message: the user of the stream reports where a
// Redirect points and whether the stream was of use.
package uplink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	linkv1 "github.com/swarm-io/swarm-operator/api/link/v1"
)

const (
	// An address that does not answer, such as that of a leader that is gone, must not use up the lease.
	connectTimeout         = 4 * time.Second
	pingEvery, pingTimeout = 10 * time.Second, 5 * time.Second
	// The operator may be configured to send larger frames than it takes.
	largestFrame = 4 << 20
	// A cluster between two leaders may send an agent round in circles.
	mostRedirects = 5
)

// Config is where the operator is and how to prove our identity.
type Config struct {
	Addresses  []string // host:port, tried in turn
	ServerName string   // in the operator's certificate; "" means the host of the first address
	TokenFile  string
	CAFile     string
	Log        *slog.Logger
}

// Validate finds what can never work.
func (c Config) Validate() error {
	if len(c.Addresses) == 0 {
		return errors.New("read link configuration: no address of the operator is given")
	}
	for _, address := range c.Addresses {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("read link configuration: address %q: %w", address, err)
		}
	}
	return nil
}

func (c Config) serverName() string {
	if c.ServerName != "" {
		return c.ServerName
	}
	host, _, _ := net.SplitHostPort(c.Addresses[0])
	return host
}

// Keep hands streams to the channel, one after the other, until the context ends. The configuration must be valid.
func Keep(ctx context.Context, config Config, streams chan<- *Stream) {
	k := keeper{config: config, backoff: newBackoff()}
	for ctx.Err() == nil {
		address := k.address()
		if err := k.once(ctx, streams); err != nil && ctx.Err() == nil {
			config.Log.Warn("no link to the operator", "error", err, "address", address)
		}
		k.pause(ctx)
	}
}

type keeper struct {
	config    Config
	backoff   backoff
	turn      int    // which address is next
	redirect  string // where the last stream pointed to
	redirects int    // in a row
	follow    bool   // go there without a pause
}

func (k *keeper) address() string {
	if k.redirect != "" {
		return k.redirect
	}
	return k.config.Addresses[k.turn%len(k.config.Addresses)]
}

// once is the life of one stream.
func (k *keeper) once(ctx context.Context, streams chan<- *Stream) error {
	connection, err := k.config.dial(k.address())
	if err != nil {
		return err
	}
	defer connection.Close()
	opened, err := open(ctx, connection, k.config.TokenFile)
	if err == nil {
		select {
		case streams <- opened:
			<-opened.released
			err = opened.Err()
		case <-ctx.Done():
		}
		opened.Close()
	}
	k.learn(opened)
	return err
}

// learn decides where to go next.
func (k *keeper) learn(from *Stream) {
	k.follow = false
	switch {
	case from != nil && from.redirected() != "" && k.redirects < mostRedirects:
		k.redirect, k.follow = from.redirected(), true
		k.redirects++
		return
	case from != nil && from.welcomed.Load():
		k.backoff = newBackoff()
	}
	k.redirect, k.redirects = "", 0
	k.turn++
}

func (k *keeper) pause(ctx context.Context) {
	if k.follow {
		return
	}
	timer := time.NewTimer(k.backoff.step())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// dial prepares a connection to one address; the certificate is checked against the one name, wherever a redirect leads.
func (c Config) dial(address string) (*grpc.ClientConn, error) {
	authorities, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the operator's CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("read the operator's CA: %s holds no certificate", c.CAFile)
	}
	secure := credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: c.serverName()})
	connection, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(secure),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largestFrame)),
		grpc.WithNoProxy(),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return connection, nil
}

// open starts the stream with a fresh token.
func open(ctx context.Context, connection *grpc.ClientConn, tokenFile string) (*Stream, error) {
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return nil, fmt.Errorf("read the agent's token: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	patience := time.AfterFunc(connectTimeout, cancel)
	client := linkv1.NewLinkClient(connection)
	stream, err := client.Connect(ctx, grpc.PerRPCCredentials(bearer(strings.TrimSpace(string(token)))))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("open stream: %w", err)
	}
	patience.Stop()
	return newStream(stream, cancel), nil
}

// bearer is a token that gRPC refuses to send over anything but TLS.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return true }
