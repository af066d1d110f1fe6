package httpapi

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

// getStrict decodes an answer strictly, and returns its status.
func getStrict(t *testing.T, handler http.Handler, path string, into any) int {
	t.Helper()
	status, body := get(handler, path, "root")
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %d %s: %v", path, status, body, err)
	}
	return status
}

// document has the parts of openapi.json that the test checks.
type document struct {
	OpenAPI    string
	Paths      map[string]map[string]struct{ Security []map[string][]string }
	Components struct{ Schemas map[string]schema }
}

type schema struct {
	Required   []string
	Properties map[string]any
}

func loadDocument(t *testing.T) document {
	t.Helper()
	var read document
	if err := json.Unmarshal(openAPIDocument, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

func TestEveryPathIsDescribedAndNoOther(t *testing.T) {
	read := loadDocument(t)
	if !strings.HasPrefix(read.OpenAPI, "3.0.") {
		t.Errorf("it is OpenAPI %s", read.OpenAPI)
	}
	var documented, served []string
	for path, methods := range read.Paths {
		for method, operation := range methods {
			documented = append(documented, strings.ToUpper(method)+" "+path)
			if secured := len(operation.Security) == 1; secured != strings.HasPrefix(path, "/v1/") {
				t.Errorf("%s: security is %v", path, operation.Security)
			}
		}
	}
	parameter := regexp.MustCompile(`:(\w+)`)
	for _, to := range newEngine(Config{Log: slog.New(slog.DiscardHandler)}).Routes() {
		served = append(served, to.Method+" "+parameter.ReplaceAllString(to.Path, "{$1}"))
	}
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("openapi.json has %v,\nserved are %v", documented, served)
	}
}

func TestEveryFieldIsDescribedAndNoOther(t *testing.T) {
	schemas := loadDocument(t).Components.Schemas
	shapes := map[string]reflect.Type{
		"Problem": reflect.TypeFor[Problem](), "Workload": reflect.TypeFor[Workload](), "Condition": reflect.TypeFor[metav1.Condition](),
		"Pool": reflect.TypeFor[Pool](), "PoolDetail": reflect.TypeFor[PoolDetail](), "PoolList": reflect.TypeFor[List[Pool]](),
		"Worker": reflect.TypeFor[Worker](), "WorkerDetail": reflect.TypeFor[WorkerDetail](),
		"Swarm": reflect.TypeFor[Swarm](), "SwarmList": reflect.TypeFor[List[Swarm]](), "TaskCounts": reflect.TypeFor[v1alpha1.TaskCounts](),
		"Task": reflect.TypeFor[Task](), "TaskList": reflect.TypeFor[List[Task]](),
	}
	for name, described := range schemas {
		shape, known := shapes[name]
		if !known {
			if name != "Health" {
				t.Errorf("nothing has the shape %s", name)
			}
			continue
		}
		always, maybe := jsonFields(shape)
		if got := slices.Sorted(maps.Keys(described.Properties)); !slices.Equal(got, slices.Sorted(slices.Values(append(always, maybe...)))) {
			t.Errorf("%s: described are %v, shown %v and maybe %v", name, got, always, maybe)
		}
		if got := slices.Sorted(slices.Values(described.Required)); !slices.Equal(got, slices.Sorted(slices.Values(always))) {
			t.Errorf("%s: required are %v, always shown %v", name, got, always)
		}
	}
	if len(schemas) != len(shapes)+1 {
		t.Errorf("%d shapes are described, there are %d", len(schemas), len(shapes)+1)
	}
}

// jsonFields returns the JSON names of a struct: those always present, and those that may be omitted.
func jsonFields(typ reflect.Type) (always, optional []string) {
	for field := range typ.Fields() {
		name, omitted, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous:
			inner, left := jsonFields(field.Type)
			always, optional = append(always, inner...), append(optional, left...)
		case omitted != "":
			optional = append(optional, name)
		default:
			always = append(always, name)
		}
	}
	return always, optional
}

func TestEveryReferenceLeadsSomewhere(t *testing.T) {
	var whole map[string]any
	if err := json.Unmarshal(openAPIDocument, &whole); err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`"\$ref": "#/([^"]+)"`).FindAllStringSubmatch(string(openAPIDocument), -1) {
		var at any = whole
		for step := range strings.SplitSeq(found[1], "/") {
			at = at.(map[string]any)[step]
		}
		if at == nil {
			t.Errorf("%s leads nowhere", found[1])
		}
	}
}
