package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

func cat(_ context.Context, out io.Writer, arguments []string) error {
	names, err := parse(newFlags("cat"), arguments, 1, -1)
	if err != nil {
		return err
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("print file: %w", err)
		}
		if _, err := out.Write(content); err != nil {
			return fmt.Errorf("print file %q: %w", name, err)
		}
	}
	return nil
}

func write(_ context.Context, _ io.Writer, arguments []string) error {
	rest, err := parse(newFlags("write"), arguments, 2, 2)
	if err != nil {
		return err
	}
	if err := os.WriteFile(rest[0], []byte(rest[1]+"\n"), 0o644); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return nil
}

func environment(_ context.Context, out io.Writer, arguments []string) error {
	rest, err := parse(newFlags("env"), arguments, 1, 1)
	if err != nil {
		return err
	}
	value, set := os.LookupEnv(rest[0])
	if !set {
		return fmt.Errorf("read variable %q: not set", rest[0])
	}
	_, err = fmt.Fprintln(out, value)
	return err
}

func sleep(ctx context.Context, _ io.Writer, arguments []string) error {
	rest, err := parse(newFlags("sleep"), arguments, 0, 1)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		<-ctx.Done()
		return nil
	}
	duration, err := time.ParseDuration(rest[0])
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(duration):
	}
	return nil
}

// journal appends lines to a file that outlives the container, so that a test can see what ran when.
func journal(ctx context.Context, _ io.Writer, arguments []string) error {
	rest, err := parse(newFlags("journal"), arguments, 1, 1)
	if err != nil {
		return err
	}
	if err := appendNote(rest[0], "start"); err != nil {
		return err
	}
	<-ctx.Done()
	return appendNote(rest[0], "stop")
}

func appendNote(file, event string) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("read host name: %w", err)
	}
	journalFile, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	_, err = fmt.Fprintf(journalFile, "%s %s %s\n", time.Now().UTC().Format(time.RFC3339Nano), host, event)
	if closed := journalFile.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("write journal %q: %w", file, err)
	}
	return nil
}
