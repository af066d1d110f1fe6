package fuzz

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"sigs.k8s.io/yaml"
)

// oddities are parts of pod templates that the schema accepts. Many make a StatefulSet that the API server refuses, or pods that never run.
var oddities = []string{
	`{spec: {initContainers: [{name: swarm-program, image: x}]}}`,
	`{spec: {initContainers: [{name: first, image: x, restartPolicy: Always}]}}`,
	`{spec: {containers: [{name: agent, image: again}]}}`,
	`{spec: {containers: [{name: side, image: x, ports: [{containerPort: 9445}, {containerPort: 9445, name: link}]}]}}`,
	`{spec: {containers: [{name: side, ports: [{containerPort: 70000}]}]}}`,
	`{spec: {containers: [{name: "", image: ""}]}}`,
	`{spec: {containers: [{name: UPPER, image: "a b"}]}}`,
	`{spec: {containers: [{name: side, image: x, env: [{name: A, value: a}, {name: A, value: b}]}]}}`,
	`{spec: {containers: [{name: side, image: x, env: [{name: SWARM_AGENT, value: other}, {name: "1=2"}]}]}}`,
	`{spec: {containers: [{name: side, image: x, securityContext: {privileged: true, allowPrivilegeEscalation: false}}]}}`,
	`{spec: {containers: [{name: side, image: x, resources: {requests: {cpu: 1000m, memory: 1Gi}, limits: {cpu: "0.5"}}}]}}`,
	`{spec: {containers: [{name: side, image: x, resources: {requests: {cpu: 1000m, memory: "1073741824", example.com/gpu: 1}, limits: {example.com/gpu: 1}}}]}}`,
	`{spec: {containers: [{name: side, image: x, livenessProbe: {}}]}}`,
	`{spec: {containers: [{name: side, image: x, readinessProbe: {httpGet: {port: http}, periodSeconds: 0}, imagePullPolicy: Sometimes}]}}`,
	`{spec: {containers: [{name: side, image: x, volumeMounts: [{name: swarm-link, mountPath: /x}, {name: nowhere, mountPath: /y}]}]}}`,
	`{spec: {containers: [{name: side, image: x, lifecycle: {}, envFrom: [{}], terminationMessagePath: /dev/x, terminationMessagePolicy: Nothing}]}}`,
	`{spec: {volumes: [{name: swarm-link, emptyDir: {}}]}}`,
	`{spec: {volumes: [{name: state, emptyDir: {sizeLimit: 0.5Gi}}]}}`,
	`{spec: {volumes: [{name: none}, {name: two, emptyDir: {}, hostPath: {path: /}}]}}`,
	`{spec: {volumes: [{name: conf, configMap: {name: missing}}, {name: conf, secret: {secretName: missing}}]}}`,
	`{spec: {volumes: [{name: c, persistentVolumeClaim: {claimName: missing}}]}}`,
	`{spec: {restartPolicy: Never}}`,
	`{spec: {restartPolicy: Always, activeDeadlineSeconds: 5}}`,
	`{spec: {hostNetwork: true, hostPID: true, hostIPC: true, shareProcessNamespace: true}}`,
	`{spec: {terminationGracePeriodSeconds: -1}}`,
	`{spec: {terminationGracePeriodSeconds: 0, serviceAccount: ghost, automountServiceAccountToken: true}}`,
	`{spec: {serviceAccountName: Not_A_Name}}`,
	`{spec: {dnsPolicy: None}}`,
	`{spec: {priorityClassName: missing, schedulerName: missing}}`,
	`{spec: {runtimeClassName: missing}}`,
	`{spec: {nodeName: nowhere}}`,
	`{spec: {nodeSelector: {"a b": c}}}`,
	`{spec: {tolerations: [{effect: Sometimes, operator: Maybe}], hostname: UPPER, subdomain: x}}`,
	`{spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}}}`,
	`{spec: {topologySpreadConstraints: [{maxSkew: 0, topologyKey: x, whenUnsatisfiable: Never}]}}`,
	`{spec: {securityContext: {runAsUser: -1, sysctls: [{name: a, value: b}]}}}`,
	`{spec: {securityContext: {runAsNonRoot: false, fsGroupChangePolicy: Never, seccompProfile: {type: Localhost}}}}`,
	`{spec: {os: {name: windows}, hostUsers: false, setHostnameAsFQDN: true, schedulingGates: [{name: example.com/wait}]}}`,
	`{spec: {overhead: {cpu: 1}, preemptionPolicy: Sometimes, enableServiceLinks: false}}`,
	`{spec: {imagePullSecrets: [{}], hostAliases: [{ip: x}], readinessGates: [{conditionType: ""}], resourceClaims: [{name: r}]}}`,
	`{metadata: {labels: {swarm.io/swarm: other, swarm.io/type: other, "not valid!": x}}}`,
	`{metadata: {labels: {app: a}, annotations: {swarm.io/paused: "true", swarm.io/config-version: x}, name: fixed, namespace: kube-system}}`,
	`{metadata: {annotations: {huge: ` + strings.Repeat("x", 270_000) + `}}}`,
	`{spec: {containers: [` + many(200, `{name: `+strings.Repeat("Wrong", 40)+`%d}`) + `]}}`,
}

// template is a pod template: mostly one that works with a few oddities, and now and then what the schema gave.
func template(r *rand.Rand, made any) any {
	base := object(`{spec: {containers: [{name: agent, image: "example.test/agent:1"}]}}`)
	if r.IntN(8) == 0 {
		merge(base, made.(map[string]any))
		if metadata, exists := base["metadata"].(map[string]any); exists {
			delete(metadata, "finalizers") // pods would get them, and their owner would have to remove them
		}
		return base
	}
	for n := range draw(r, []int{0, 0, 1, 1, 1, 2, 3}) {
		text := oddities[r.IntN(len(oddities))]
		merge(base, object(strings.Replace(text, "name: side", fmt.Sprint("name: side-", n), 1))) // the schema refuses two of a name
	}
	return base
}

func object(text string) map[string]any {
	made := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &made); err != nil {
		panic(err)
	}
	return integers(made).(map[string]any)
}

// integers turns the floats of a decoder into the integers that they were.
func integers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = integers(value[key])
		}
	case []any:
		for n := range value {
			value[n] = integers(value[n])
		}
	case float64:
		if value == float64(int64(value)) {
			return int64(value)
		}
	}
	return value
}

// merge adds to an object what another has: lists are joined, and of two scalars the second counts.
func merge(into, from map[string]any) {
	for key, value := range from {
		switch value := value.(type) {
		case map[string]any:
			if existing, exists := into[key].(map[string]any); exists {
				merge(existing, value)
				continue
			}
		case []any:
			if existing, exists := into[key].([]any); exists {
				into[key] = append(existing, value...)
				continue
			}
		}
		into[key] = value
	}
}
