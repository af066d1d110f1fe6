package main

import (
	"encoding/json"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A dockerfileStage is what a Dockerfile's stage puts into its image. Only what our Dockerfile uses is understood.
type dockerfileStage struct {
	from       string
	files      []string
	labels     map[string]string
	user       string
	entrypoint []string
	arguments  map[string]string
	commands   []string
}

var spaces = regexp.MustCompile(`\s+`)

// instructions joins continued lines and leaves out comments.
func instructions(content string) [][2]string {
	var result [][2]string
	joined := regexp.MustCompile(`\\\n\s*`).ReplaceAllString(content, "")
	for line := range strings.Lines(joined) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, _ := strings.Cut(spaces.ReplaceAllString(line, " "), " ")
		result = append(result, [2]string{word, rest})
	}
	return result
}

// parseDockerfile reads the stages for one service. The last stage, which has no name, is called "".
func parseDockerfile(t *testing.T, file, service string) map[string]*dockerfileStage {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	stages, current := map[string]*dockerfileStage{}, &dockerfileStage{arguments: map[string]string{}}
	for _, instruction := range instructions(strings.ReplaceAll(string(content), "${SERVICE}", service)) {
		if instruction[0] == "FROM" {
			base, name, _ := strings.Cut(instruction[1], " AS ")
			current = &dockerfileStage{from: base, labels: map[string]string{}, arguments: map[string]string{}}
			stages[name] = current
			continue
		}
		current.add(t, instruction[0], instruction[1])
	}
	return stages
}

func (s *dockerfileStage) add(t *testing.T, word, rest string) {
	t.Helper()
	switch word {
	case "ARG":
		name, byDefault, _ := strings.Cut(rest, "=")
		s.arguments[name] = byDefault
	case "COPY":
		words := strings.Fields(rest)
		s.files = append(s.files, path.Clean(words[len(words)-1]))
	case "LABEL":
		for pair := range strings.FieldsSeq(rest) {
			key, value, _ := strings.Cut(pair, "=")
			s.labels[key] = value
		}
	case "USER":
		s.user = rest
	case "ENTRYPOINT":
		if err := json.Unmarshal([]byte(rest), &s.entrypoint); err != nil {
			t.Fatalf("ENTRYPOINT %s: %v", rest, err)
		}
	case "RUN":
		s.commands = append(s.commands, rest)
	case "WORKDIR":
	default:
		t.Fatalf("unknown instruction %q: teach the test what it puts into the image", word)
	}
}

func TestR18_DockerfileMakesTheSameImages(t *testing.T) {
	for _, service := range services {
		t.Run(service.Name, func(t *testing.T) {
			stages := parseDockerfile(t, repository+"/Dockerfile", service.Name)
			last, own, base := stages[""], stages["image-"+service.Name], stages["base"]
			if own == nil {
				t.Fatalf("no stage image-%s", service.Name)
			}
			if last.from != "image-"+service.Name || own.from != "base" || base.from != "scratch" {
				t.Fatalf("stages build on %q, %q, %q", last.from, own.from, base.from)
			}
			files := slices.Sorted(slices.Values(slices.Concat(base.files, own.files, last.files)))
			if want := service.contents(); !slices.Equal(files, want) {
				t.Errorf("Dockerfile puts %q into the image, the builder %q", files, want)
			}
			if base.user != user || own.user != "" {
				t.Errorf("Dockerfile runs it as %q, the builder as %q", base.user, user)
			}
			if want := []string{service.binary()}; !slices.Equal(own.entrypoint, want) {
				t.Errorf("Dockerfile starts %q, the builder %q", own.entrypoint, want)
			}
		})
	}
}

// The variables of the Dockerfile stand where the builder has the stamp's values.
var variables = Stamp{Version: "${VERSION}", Commit: "${COMMIT}"}

func TestR18_P18_DockerfileStampsTheSame(t *testing.T) {
	stages := parseDockerfile(t, repository+"/Dockerfile", "probe")
	for _, name := range []string{"SERVICE", "COMMIT", "DATE", "VERSION"} {
		if _, declared := stages["build"].arguments[name]; !declared {
			t.Errorf("the build stage has no ARG %s", name)
		}
	}
	want := strings.Replace(variables.ldflags(), variables.date(), "${DATE}", 1)
	if build := strings.Join(stages["build"].commands, "\n"); !strings.Contains(build, `-ldflags "`+want+`"`) {
		t.Errorf("Dockerfile builds with\n%s\nthe builder links with\n%s", build, want)
	}
	labels := variables.labels("probe")
	labels["org.opencontainers.image.created"] = "${DATE}"
	if !maps.Equal(stages["base"].labels, labels) {
		t.Errorf("Dockerfile labels %v, the builder %v", stages["base"].labels, labels)
	}
}

func TestR18_DockerfileHasNoStageTooMany(t *testing.T) {
	stages := parseDockerfile(t, repository+"/Dockerfile", "probe")
	for name := range stages {
		if service, isImage := strings.CutPrefix(name, "image-"); isImage && !slices.Contains(serviceNames(), service) {
			t.Errorf("stage %s: the builder has no service %q", name, service)
		}
	}
}
