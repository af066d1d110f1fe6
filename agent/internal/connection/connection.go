// Package connection keeps an agent connected to the operator: it chooses an address, authenticates, opens a stream, and opens the next one
// when that ends, with growing, jittered pauses between failures.
//
// It promises that there is one stream at a time, that token and CA are read again for each stream (both are renewed on disk), and that it
// never blocks the caller. It does not interpret messages: the user of the stream reports where a Redirect points and whether the stream
// was useful.
package connection

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
	// An address that does not respond, such as that of a former leader, must not use up the lease.
	connectTimeout         = 4 * time.Second
	pingEvery, pingTimeout = 10 * time.Second, 5 * time.Second
	// The operator may be configured to send larger frames than it accepts.
	maxFrameBytes = 4 << 20
	// Between two leaders, redirects may form a loop.
	maxRedirects = 5
)

// Config says where the operator is and how to authenticate.
type Config struct {
	Addresses  []string // host:port, tried in turn
	ServerName string   // in the operator's certificate; "" means the host of the first address
	TokenFile  string
	CAFile     string
	Log        *slog.Logger
}

// Validate reports settings that can never work.
func (c Config) Validate() error {
	if len(c.Addresses) == 0 {
		return errors.New("read link configuration: no operator address given")
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

// Run hands streams to the channel, one after the other, until the context ends. The configuration must be valid.
func Run(ctx context.Context, config Config, streams chan<- *Stream) {
	c := connector{config: config, backoff: newBackoff()}
	for ctx.Err() == nil {
		address := c.address()
		if err := c.serveStream(ctx, streams); err != nil && ctx.Err() == nil {
			config.Log.Warn("no link to the operator", "error", err, "address", address)
		}
		c.waitBackoff(ctx)
	}
}

type connector struct {
	config       Config
	backoff      backoff
	addressIndex int    // which address is next
	redirect     string // where the last stream redirected to
	redirects    int    // in a row
	skipBackoff  bool   // connect without a pause
}

func (c *connector) address() string {
	if c.redirect != "" {
		return c.redirect
	}
	return c.config.Addresses[c.addressIndex%len(c.config.Addresses)]
}

// serveStream opens one stream and serves it until it ends.
func (c *connector) serveStream(ctx context.Context, streams chan<- *Stream) error {
	connection, err := c.config.dial(c.address())
	if err != nil {
		return err
	}
	defer connection.Close()
	stream, err := openStream(ctx, connection, c.config.TokenFile)
	if err == nil {
		select {
		case streams <- stream:
			<-stream.released
			err = stream.Err()
		case <-ctx.Done():
		}
		stream.Close()
	}
	c.chooseNextAddress(stream)
	return err
}

// chooseNextAddress returns the address to connect to next.
func (c *connector) chooseNextAddress(stream *Stream) {
	c.skipBackoff = false
	switch {
	case stream != nil && stream.redirectAddress() != "" && c.redirects < maxRedirects:
		c.redirect, c.skipBackoff = stream.redirectAddress(), true
		c.redirects++
		return
	case stream != nil && stream.welcomed.Load():
		c.backoff = newBackoff()
	}
	c.redirect, c.redirects = "", 0
	c.addressIndex++
}

func (c *connector) waitBackoff(ctx context.Context) {
	if c.skipBackoff {
		return
	}
	timer := time.NewTimer(c.backoff.takeDelay())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// dial prepares a connection to one address. The certificate is verified against the same name wherever a redirect leads.
func (c Config) dial(address string) (*grpc.ClientConn, error) {
	caPEM, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the operator's CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(caPEM) {
		return nil, fmt.Errorf("read the operator's CA: %s holds no certificate", c.CAFile)
	}
	tlsCredentials := credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: c.serverName()})
	connection, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(tlsCredentials),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxFrameBytes)),
		grpc.WithNoProxy(),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return connection, nil
}

// openStream starts the stream with a fresh token.
func openStream(ctx context.Context, connection *grpc.ClientConn, tokenFile string) (*Stream, error) {
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return nil, fmt.Errorf("read the agent's token: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(connectTimeout, cancel)
	client := linkv1.NewLinkClient(connection)
	stream, err := client.Connect(ctx, grpc.PerRPCCredentials(tokenCredentials(strings.TrimSpace(string(token)))))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("open stream: %w", err)
	}
	timer.Stop()
	return newStream(stream, cancel), nil
}

// tokenCredentials is a token that gRPC sends over TLS only.
type tokenCredentials string

func (b tokenCredentials) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (tokenCredentials) RequireTransportSecurity() bool { return true }
