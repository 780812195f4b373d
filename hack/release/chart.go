// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	chartFile = `apiVersion: v2
name: metal3-apiserver
description: Metal3's BareMetalHost as an aggregated Kubernetes API
home: https://github.com/metal3-io/metal3-apiserver
version: %s
appVersion: %s
kubeVersion: ">=1.30.0-0"
`
	valuesFile = `# These are all values. docs/install.md in the sources describes what has to be there before the installation: cert-manager, an
# etcd and the Secret metal3-apiserver-etcd-client. Everything else is as in the kustomization artifacts/apiservice.

# The namespace is not part of the chart: it has the Secret before, and often Ironic.
namespace: metal3-system
image:
  repository: %s
  # Without a digest, the tag is used.
  digest: %s
  tag: %s
# Secrets with the password of the registry, such as [{name: registry}].
imagePullSecrets: []
replicas: 2
# Where Ironic and etcd are. A change restarts the pods.
config:
%s# More flags of metal3-apiserver.
flags: []
# More volumes and volume mounts, for files that flags name, such as those of --ironic-username-file and --ironic-password-file.
volumes: []
volumeMounts: []
`
)

// edits are what makes a template of the rendered kustomization. Each must find something.
var edits = []struct{ old, new string }{
	{`\ndata:\n(?:  [A-Z_]+: .*\n)+`, "\ndata:\n  {{- toYaml .Values.config | nindent 2 }}\n"},
	{`\nkind: ServiceAccount\nmetadata:\n`, "\nkind: ServiceAccount\n{{- with .Values.imagePullSecrets }}\nimagePullSecrets: {{ toJson . }}\n{{- end }}\nmetadata:\n"},
	// The name changes with the content, and restarts the pods.
	{`metal3-apiserver-config-[a-z0-9]{10}`, `metal3-apiserver-config-{{ toYaml .Values.config | sha256sum | trunc 10 }}`},
	{`image: metal3-apiserver:latest`,
		`image: {{ .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag }}{{ end }}`},
	{`(\nkind: Deployment\n(?:.*\n)+?  replicas: )\d+\n`, "$1{{ .Values.replicas }}\n"},
	// The Lease and the Secrets of IronicInstances are in the namespace of this flag.
	{`(      - args:\n(?:        - --.*\n)+)`, `$1
        {{- if ne .Values.namespace "metal3-system" }}
        - --leader-elect-resource-namespace={{ .Values.namespace }}
        {{- end }}
        {{- range .Values.flags }}
        - {{ . | quote }}
        {{- end }}
`},
	{`\n        volumeMounts:\n`, "$0        {{- with .Values.volumeMounts }}\n        {{- toYaml . | nindent 8 }}\n        {{- end }}\n"},
	{`\n      volumes:\n`, "$0      {{- with .Values.volumes }}\n      {{- toYaml . | nindent 6 }}\n      {{- end }}\n"},
	{`([ /.])metal3-system\b`, "$1{{ .Values.namespace }}"},
}

// writeChart writes a chart for Helm that renders what the manifest has, which is artifacts/apiservice as kustomize renders it.
func writeChart(folder, version, repository, digest, manifest string) error {
	content, err := os.ReadFile(manifest)
	if err != nil {
		return err
	}
	template := string(content)
	if strings.Contains(template, "{{") {
		return fmt.Errorf("%s has {{, which Helm would take for its own", manifest)
	}
	config, err := configOf(template)
	if err != nil {
		return err
	}
	for _, edit := range edits {
		old := regexp.MustCompile(edit.old)
		if !old.MatchString(template) {
			return fmt.Errorf("%s has nothing like %q", manifest, edit.old)
		}
		template = old.ReplaceAllString(template, edit.new)
	}
	for path, content := range map[string]string{
		"Chart.yaml":              fmt.Sprintf(chartFile, strings.TrimPrefix(version, "v"), version),
		"values.yaml":             fmt.Sprintf(valuesFile, repository, digest, version, config),
		"templates/manifest.yaml": template,
	} {
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// configOf returns the data of the manifest's ConfigMap, as it is in a file of values.
func configOf(manifest string) (string, error) {
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		if !strings.Contains(document, "\nkind: ConfigMap\n") {
			continue
		}
		var object struct{ Data map[string]string }
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return "", err
		}
		data, err := yaml.Marshal(object.Data)
		return "  " + strings.ReplaceAll(strings.TrimSpace(string(data)), "\n", "\n  ") + "\n", err
	}
	return "", errors.New("there is no ConfigMap")
}
