// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// outcome is what is seen of a host: values by their paths.
type outcome map[string]string

// outcome returns what is seen now.
func (p *player) outcome(t *testing.T) outcome {
	ctx, seen := t.Context(), outcome{}
	host, err := p.hosts.Get(ctx, p.host.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		p.note(host)
		seen.add(t, p, "host", host)
	case !apierrors.IsNotFound(err):
		t.Error(err)
	}
	p.mu.Lock()
	node := p.node
	for _, state := range p.states {
		seen["states."+state] = "seen"
	}
	p.mu.Unlock()
	if fields, exists := p.ironic.Node(node); exists {
		seen.add(t, p, "node", fields)
	}
	seen.set("targets", strings.Join(p.ironic.ProvisionTargets(node), " "))
	for i, write := range p.ironic.DiskWrites(node) {
		seen.set(fmt.Sprint("disks.", i), write.Step)
	}
	p.addSecrets(t, seen)
	p.addOthers(t, seen)
	return seen
}

func (p *player) addSecrets(t *testing.T, seen outcome) {
	secrets, err := p.core.CoreV1().Secrets(p.ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	for _, secret := range secrets.Items {
		seen.add(t, p, "secrets."+secret.Name, map[string]any{"labels": secret.Labels, "finalizers": secret.Finalizers, "owners": kindsOf(secret.OwnerReferences)})
	}
}

func kindsOf(owners []metav1.OwnerReference) (kinds []string) {
	for _, owner := range owners {
		kinds = append(kinds, owner.Kind+" "+owner.Name)
	}
	return kinds
}

// addOthers adds the objects of other kinds, and the events.
func (p *player) addOthers(t *testing.T, seen outcome) {
	ctx, client := t.Context(), p.metal3.Metal3V1alpha1()
	all := metav1.ListOptions{}
	if list, err := client.HardwareData(p.ns).List(ctx, all); err == nil {
		for _, o := range list.Items {
			seen.add(t, p, "hardwaredata."+o.Name, o)
		}
	}
	if list, err := client.HostFirmwareSettings(p.ns).List(ctx, all); err == nil {
		for _, o := range list.Items {
			seen.add(t, p, "hostfirmwaresettings."+o.Name, o)
		}
	}
	if list, err := client.FirmwareSchemas(p.ns).List(ctx, all); err == nil {
		for _, o := range list.Items {
			seen.add(t, p, "firmwareschemas."+o.Name, o)
		}
	}
	if list, err := client.HostFirmwareComponents(p.ns).List(ctx, all); err == nil {
		for _, o := range list.Items {
			seen.add(t, p, "hostfirmwarecomponents."+o.Name, o)
		}
	}
	if list, err := client.HostClaims(p.ns).List(ctx, all); err == nil {
		for _, o := range list.Items {
			seen.add(t, p, "hostclaims."+o.Name, o)
		}
	}
	if list, err := client.DataImages(p.ns).List(ctx, all); err == nil {
		for _, o := range list.Items {
			seen.add(t, p, "dataimages."+o.Name, o)
		}
	}
	if list, err := client.BMCEventSubscriptions(p.ns).List(ctx, all); err == nil {
		for _, o := range list.Items {
			seen.add(t, p, "bmceventsubscriptions."+o.Name, o)
		}
	}
	for _, reason := range p.events(ctx) {
		seen["events."+reason] = "seen"
	}
}

// events are the reasons of the events about the host, without their types: the operator tells errors as normal events.
func (p *player) events(ctx context.Context) (reasons []string) {
	list, err := p.core.CoreV1().Events(p.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for _, event := range list.Items {
		if event.InvolvedObject.Kind == "BareMetalHost" {
			reasons = append(reasons, event.Reason)
		}
	}
	return reasons
}

// add adds the parts of an object, without what differs in each run.
func (o outcome) add(t *testing.T, p *player, path string, object any) {
	content, err := json.Marshal(object)
	if err != nil {
		t.Error(err)
		return
	}
	text := strings.ReplaceAll(string(content), p.ns, "NAMESPACE")
	p.mu.Lock()
	if p.node != "" {
		text = strings.ReplaceAll(text, p.node, "NODE")
	}
	p.mu.Unlock()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Error(err)
		return
	}
	if fields, ok := value.(map[string]any); ok {
		for _, name := range []string{"kind", "apiVersion", "driver_internal_info"} { // the first two are in lists of some clients only
			delete(fields, name)
		}
		if metadata, ok := fields["metadata"].(map[string]any); ok {
			delete(metadata, "managedFields")
			delete(metadata, "generation")
		}
	}
	o.flatten(path, value)
}

func (o outcome) set(path, value string) {
	if value != "" {
		o[path] = value
	}
}

func (o outcome) flatten(path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			switch {
			case ofEachRun[name]:
				if field != nil && field != "" {
					o[path+"."+name] = "set"
				}
			case name == "conditions":
				o.addConditions(path+".conditions", field)
			default:
				o.flatten(path+"."+name, field)
			}
		}
	case []any:
		for i, element := range value {
			o.flatten(fmt.Sprint(path, "[", i, "]"), element)
		}
	case nil:
	default:
		if text := fmt.Sprint(value); text != "" {
			o[path] = text
		}
	}
}

// addConditions adds conditions by their types, with their reasons.
func (o outcome) addConditions(path string, conditions any) {
	list, _ := conditions.([]any)
	for _, element := range list {
		if condition, ok := element.(map[string]any); ok {
			o[fmt.Sprint(path, ".", condition["type"])] = fmt.Sprint(condition["status"], " ", condition["reason"])
		}
	}
}

// ofEachRun are fields of which only counts whether they are set.
var ofEachRun = map[string]bool{
	"uid": true, "resourceVersion": true, "creationTimestamp": true, "lastUpdated": true, "credentialsVersion": true, "start": true, "end": true,
	"errorMessage": true, "ip": true, "message": true, "lastTransitionTime": true, "hostname": true, "serialNumber": true,
	"created_at": true, "updated_at": true, "provision_updated_at": true, "inspection_finished_at": true, "inspection_started_at": true,
	"power_updated_at": true, "last_error": true, "instance_uuid": true, "uuid": true, "last_updated": true, "updatedAt": true, "lastReconciled": true, "last_power_state_change": true,
}

// differing lists what differs and is in neither table of differences.
func differing(theirs, ours outcome, ofLife map[string]string) (differences []string) {
	paths := maps.Clone(theirs)
	maps.Copy(paths, ours)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		a, b := theirs[path], ours[path]
		if a == b || isMeant(path, ofLife) || isMeant(path, everywhere) {
			continue
		}
		if a != "" {
			differences = append(differences, fmt.Sprintf("- %s: %s", path, a))
		}
		if b != "" {
			differences = append(differences, fmt.Sprintf("+ %s: %s", path, b))
		}
	}
	return differences
}

func isMeant(path string, differences map[string]string) bool {
	for prefix := range differences {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

// patched returns an object with a merge patch applied.
func patched(t *testing.T, host *metal3.BareMetalHost, patch string) *metal3.BareMetalHost {
	if patch == "" {
		return host
	}
	changed := host.DeepCopy()
	if err := json.Unmarshal([]byte(patch), changed); err != nil {
		t.Error(err)
	}
	return changed
}
