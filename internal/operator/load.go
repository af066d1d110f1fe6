package operator

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// variablePrefix starts the name of every environment variable that overrides a key.
const variablePrefix = "SWARM_"

// Load reads the configuration file, if there is one, applies the environment, and rejects what cannot work: all of it at once, each
// problem on a line that names the key, the value and what to write instead. Even then it returns what could be read.
func Load(path string, environment []string) (Config, error) {
	config := Defaults()
	fileErr := config.readFile(path)
	envErr := config.applyEnvironment(variableSettings(environment))
	return config, errors.Join(fileErr, envErr, config.validate())
}

// readFile applies the file.
func (c *Config) readFile(path string) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	document, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return fmt.Errorf("read configuration %s: %s", path, strings.Join(strings.Fields(err.Error()), " ")) // on one line
	}
	return decodeSection(reflect.ValueOf(c).Elem(), "", document)
}

// decodeSection sets the keys of a section that the document names, and rejects unknown ones.
func decodeSection(section reflect.Value, path string, document []byte) error {
	values := map[string]json.RawMessage{}
	if err := json.Unmarshal(document, &values); err != nil {
		return fmt.Errorf("%s is %s: write keys and their values", cmp.Or(strings.TrimSuffix(path, "."), "the configuration"), document)
	}
	fields := map[string]reflect.Value{}
	for field, value := range section.Fields() {
		fields[keyOf(field)] = value
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		field, found := fields[name]
		switch {
		case !found:
			problems = append(problems, fmt.Errorf("%s%s is not a key: choose one of %s", path, name,
				strings.Join(slices.Sorted(maps.Keys(fields)), ", ")))
		case isSection(field.Type()):
			problems = append(problems, decodeSection(field, path+name+".", values[name]))
		default:
			problems = append(problems, decodeValue(field, path+name, values[name]))
		}
	}
	return errors.Join(problems...)
}

// A variableSetting is an environment variable.
type variableSetting struct{ name, value string }

// variableSettings returns our environment variables by path. Underscores are ignored, so that RESYNC_PERIOD and RESYNCPERIOD both stand
// for resyncPeriod. Other variables may begin with SWARM_ as well: Kubernetes sets some for every Service.
func variableSettings(environment []string) map[string]variableSetting {
	result := map[string]variableSetting{}
	for _, entry := range environment {
		name, value, _ := strings.Cut(entry, "=")
		if path, ok := strings.CutPrefix(name, variablePrefix); ok {
			result[strings.ReplaceAll(path, "_", "")] = variableSetting{name, value}
		}
	}
	return result
}

// applyEnvironment sets every key that the environment names. A string is taken literally; other values are written as in the file.
func (c *Config) applyEnvironment(settings map[string]variableSetting) error {
	var problems []error
	visitKeys(reflect.ValueOf(c).Elem(), "", func(key string, value reflect.Value) {
		chosen, found := settings[strings.ToUpper(strings.ReplaceAll(key, ".", ""))]
		if !found {
			return
		}
		if value.Kind() == reflect.String {
			value.SetString(chosen.value) // as YAML, [fd00::1]:9444 would be a list
			return
		}
		document, err := yaml.YAMLToJSONStrict([]byte(chosen.value))
		if err != nil {
			document, _ = json.Marshal(chosen.value) // a string, which will be rejected
		}
		if err := decodeValue(value, key, document); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", chosen.name, err))
		}
	})
	return errors.Join(problems...)
}

// decodeValue sets a key. An invalid value leaves it unchanged, so that no second problem follows from the first.
func decodeValue(value reflect.Value, key string, document []byte) error {
	decoded := reflect.New(value.Type())
	decoded.Elem().Set(value)
	strictErrs, err := kjson.UnmarshalStrict(document, decoded.Interface())
	if err != nil || len(strictErrs) > 0 {
		return fmt.Errorf("%s is %s: write %s", key, document, valueFormats[value.Type()])
	}
	value.Set(decoded.Elem())
	return nil
}

// valueFormats describe how values are written.
var valueFormats = map[reflect.Type]string{
	reflect.TypeFor[int]():                  "a whole number",
	reflect.TypeFor[bool]():                 "true or false",
	reflect.TypeFor[string]():               "a text",
	reflect.TypeFor[metav1.Duration]():      "a duration, such as 30s or 1m30s",
	reflect.TypeFor[metav1.LabelSelector](): "a label selector, such as {matchLabels: {team: a}}",
	reflect.TypeFor[resource.Quantity]():    "a number of bytes, such as 256Mi",
	reflect.TypeFor[intstr.IntOrString]():   "a whole number or a share, such as 2 or 25%",
}
