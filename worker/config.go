package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/swarm-io/swarm-operator/internal/process/settings"
	"github.com/swarm-io/swarm-operator/worker/lease"
)

// Defaults for variables that the pod does not set.
const (
	defaultFile        = "/app/config/config.yml"
	defaultVersionFile = "/app/pod/config-version"
	defaultPort        = "9090"
	defaultGrace       = "20"
	defaultLease       = "0"
	maxPort            = 65535
)

// Config is the configuration of a worker.
type Config struct {
	Worker string // POD_NAME, by the downward API
	PodUID string // POD_UID, by the downward API: the operator checks it

	File        string // SWARM_CONFIG, the mounted list; default /app/config/config.yml
	VersionFile string // SWARM_CONFIG_VERSION_FILE, the annotation swarm.io/config-version as a file; default /app/pod/config-version
	Port        int    // SWARM_PORT, default 9090; 0 is any

	Grace   time.Duration // SWARM_GRACE_SECONDS, default 20: for Command, between SIGTERM and SIGKILL
	Journal string        // SWARM_JOURNAL, a file that gets a line for each start, stop and acknowledgement; default none
	Lease   time.Duration // SWARM_LEASE_SECONDS, default 0: none. The duration of the pod's own Lease: see worker/lease

	LeaseStore lease.Store  // instead of a Lease on the API server of this cluster
	Listener   net.Listener // instead of Port
	Log        *slog.Logger // default: JSON on standard error from ConfigFromEnvironment, else none
	// Abort is called instead of os.Exit when a job still runs after the Lease is over. It must not block for long.
	Abort func(reason string)
}

// ConfigFromEnvironment reads a worker's variables, by os.Getenv or the like.
func ConfigFromEnvironment(getenv func(string) string) (Config, error) {
	reader := settings.NewReader(getenv)
	config := Config{
		Worker:      getenv("POD_NAME"),
		PodUID:      getenv("POD_UID"),
		File:        reader.Text("SWARM_CONFIG", defaultFile),
		VersionFile: reader.Text("SWARM_CONFIG_VERSION_FILE", defaultVersionFile),
		Journal:     getenv("SWARM_JOURNAL"),
		Log:         slog.New(slog.NewJSONHandler(os.Stderr, nil)),
	}
	config.Port = reader.Number("SWARM_PORT", defaultPort)
	config.Grace = reader.Seconds("SWARM_GRACE_SECONDS", defaultGrace)
	config.Lease = reader.Seconds("SWARM_LEASE_SECONDS", defaultLease)
	return config, errors.Join(reader.Err(), config.validate())
}

// validate reports all problems at once.
func (c Config) validate() error {
	var problems []error
	for _, required := range [][2]string{
		{"POD_NAME", c.Worker}, {"POD_UID", c.PodUID}, {"SWARM_CONFIG", c.File}, {"SWARM_CONFIG_VERSION_FILE", c.VersionFile},
	} {
		if required[1] == "" {
			problems = append(problems, fmt.Errorf("read worker configuration: %s is not set", required[0]))
		}
	}
	if c.Port < 0 || c.Port > maxPort {
		problems = append(problems, fmt.Errorf("read worker configuration: SWARM_PORT is %d, not 0 to %d", c.Port, maxPort))
	}
	if c.Grace < 0 {
		problems = append(problems, errors.New("read worker configuration: SWARM_GRACE_SECONDS is negative"))
	}
	if c.Lease != 0 {
		if err := lease.Validate(c.Lease); err != nil {
			problems = append(problems, fmt.Errorf("read worker configuration: SWARM_LEASE_SECONDS: %w", err))
		}
	}
	return errors.Join(problems...)
}
