package operator

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// variable starts the name of every environment variable that overrides a key.
const variable = "SWARM_"

// Load reads the configuration file, if there is one, lets the environment override it, and refuses what cannot work.
func Load(path string, environment []string) (Config, error) {
	config := Defaults()
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return config, fmt.Errorf("read configuration: %w", err)
		}
		if err := decode(text, &config); err != nil {
			return config, fmt.Errorf("read configuration %s: %w", path, err)
		}
	}
	if err := override(reflect.ValueOf(&config).Elem(), "", settings(environment)); err != nil {
		return config, err
	}
	if err := config.check(); err != nil {
		return config, fmt.Errorf("configuration: %w", err)
	}
	return config, nil
}

// decode refuses keys that do not exist and keys that come twice, and names them with their whole path.
func decode(text []byte, into any) error {
	document, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	strict, err := kjson.UnmarshalStrict(document, into)
	return errors.Join(append(strict, err)...)
}

// settings are the environment's variables of ours by path. Underscores do not count, so that RESYNC_PERIOD and RESYNCPERIOD both
// stand for resyncPeriod. Others may begin with SWARM_ as well: Kubernetes itself makes some for every Service.
func settings(environment []string) map[string]string {
	found := map[string]string{}
	for _, entry := range environment {
		name, value, _ := strings.Cut(entry, "=")
		if path, ours := strings.CutPrefix(name, variable); ours {
			found[strings.ReplaceAll(path, "_", "")] = value
		}
	}
	return found
}

// override sets every key that the environment names. A text is taken as it is; other values are written as in the file.
func override(section reflect.Value, path string, settings map[string]string) error {
	for n := range section.NumField() {
		name, _, _ := strings.Cut(section.Type().Field(n).Tag.Get("json"), ",")
		key := strings.TrimPrefix(path+"."+name, ".")
		if isSection(section.Field(n).Type()) {
			if err := override(section.Field(n), key, settings); err != nil {
				return err
			}
		}
		value, set := settings[strings.ToUpper(strings.ReplaceAll(key, ".", ""))]
		if !set {
			continue
		}
		if section.Field(n).Kind() == reflect.String {
			section.Field(n).SetString(value) // as YAML, [fd00::1]:9444 would be a list
			continue
		}
		if err := decode([]byte(value), section.Field(n).Addr().Interface()); err != nil {
			return fmt.Errorf("read %s%s, which overrides %s: %w", variable, strings.ToUpper(strings.ReplaceAll(key, ".", "_")), key, err)
		}
	}
	return nil
}

// isSection tells a part of the configuration from a value: only parts are types of this package.
func isSection(kind reflect.Type) bool {
	return kind.Kind() == reflect.Struct && kind.PkgPath() == reflect.TypeFor[Config]().PkgPath()
}

// Keys lists every key, for help texts and for the test that each of them does something.
func Keys() []string {
	keys := keysOf(reflect.TypeFor[Config](), "")
	slices.Sort(keys)
	return keys
}

func keysOf(section reflect.Type, path string) []string {
	var keys []string
	for field := range section.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if isSection(field.Type) {
			keys = append(keys, keysOf(field.Type, path+name+".")...)
			continue
		}
		keys = append(keys, path+name)
	}
	return keys
}
