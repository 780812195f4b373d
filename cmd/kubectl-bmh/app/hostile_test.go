// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clienttesting "k8s.io/client-go/testing"

	ironic "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/hostile"
)

// hostileCluster has a host worker-0 each text of which is hostile, and so is what is known of it.
func hostileCluster() *cluster {
	host := &metal3.BareMetalHost{}
	hostile.Fill(host, hostile.Text)
	host.Namespace, host.Name, host.DeletionTimestamp, host.Status.OperationalStatus = "metal3", "worker-0", nil, metal3.OperationalStatusError
	event := &corev1.Event{}
	hostile.Fill(event, hostile.Text)
	event.Namespace, event.Name = "metal3", "event"
	event.InvolvedObject = corev1.ObjectReference{Kind: "BareMetalHost", UID: host.UID}
	candidate := &ironic.Candidate{}
	hostile.Fill(candidate, hostile.Text)
	candidate.Name, candidate.Namespace = "candidate", ""
	instance := &ironic.IronicInstance{}
	hostile.Fill(instance, hostile.Text)
	instance.Name, instance.Namespace = "instance", ""
	for i, conditionType := range []string{ironic.IronicInstanceAccepted, ironic.IronicInstanceReachable} {
		instance.Status.Conditions = append(instance.Status.Conditions[:i:i], metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: hostile.Text, Message: hostile.Text})
	}
	c := newCluster(host, event, unstructuredOf(candidate, "Candidate"), unstructuredOf(instance, "IronicInstance"))
	c.metal3.PrependReactor("get", "baremetalhosts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch action.GetSubresource() {
		case "history":
			history := &metal3.HostHistory{}
			hostile.Fill(history, hostile.Text)
			return true, history, nil
		case "validate":
			validation := &metal3.HostValidation{}
			hostile.Fill(validation, hostile.Text)
			validation.Status.Interfaces[0].Name, validation.Status.Interfaces[0].Result = "deploy", metal3.InterfaceUnusable
			return true, validation, nil
		}
		return false, nil, nil
	})
	return c
}

func unstructuredOf(object runtime.Object, kind string) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		panic(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(ironic.SchemeGroupVersion.WithKind(kind))
	return u
}

// TestHostileHost: nothing that a BMC, Ironic or somebody who writes hosts says reaches the terminal as
// anything but text.
func TestHostileHost(t *testing.T) {
	for _, args := range [][]string{
		{}, {"-o", "wide"}, {"-A"}, {"--sort", "problem"}, {"-o", "json"},
		{"why", "worker-0"}, {"history", "worker-0"},
		{"wait", "worker-0", "--for", "provisioned", "--timeout", "1s", "--progress", "plain"},
		{"wait", "worker-0", "--for", "provisioned", "--timeout", "1s", "--progress", "json"},
		{"wait", "worker-0", "--for", "provisioned", "--error-grace", "0s", "--timeout", "10s", "--progress", "plain"},
		{"takeover", "worker-0", "--yes"},
		{"candidates"}, {"candidates", "-o", "json"}, {"ironics"}, {"ironics", "-o", "json"},
		{"power", "off", "worker-0", "--yes"},
		{"__complete", "why", ""}, {"__complete", "candidates", ""}, {"__complete", "--field-selector", "status.i"},
	} {
		c := hostileCluster()
		c.run(t, args...)
		if c.out+c.errOut == "" {
			t.Errorf("%q prints nothing", args)
		}
		for _, output := range []string{c.out, c.errOut} {
			if len(args) > 0 && args[0] == "__complete" {
				output = strings.ReplaceAll(output, "\t", " ") // what separates a word and its description
			}
			if found := hostile.In(output); found != "" {
				t.Errorf("%q: %s", args, found)
			}
		}
	}
}

// TestHostileJSON: what is escaped in JSON is the same when it is read.
func TestHostileJSON(t *testing.T) {
	c := hostileCluster()
	if code := c.run(t, "-o", "json"); code != 0 {
		t.Fatalf("exit code %d: %s", code, c.errOut)
	}
	var list metal3.BareMetalHostList
	if err := json.Unmarshal([]byte(c.out), &list); err != nil || len(list.Items) != 1 || list.Items[0].Status.ErrorMessage != hostile.Text {
		t.Errorf("error %v: %s", err, c.out)
	}
	c.run(t, "wait", "worker-0", "--for", "provisioned", "--timeout", "1s", "--progress", "json")
	var line struct{ Problem string }
	first, _, _ := strings.Cut(c.errOut, "\n")
	if err := json.Unmarshal([]byte(first), &line); err != nil || !strings.Contains(line.Problem, "\u009b31m") {
		t.Errorf("error %v: %s", err, c.errOut)
	}
}

// TestHostileServer: the errors that end a command, and those of single hosts, are from outside as well.
func TestHostileServer(t *testing.T) {
	for name, err := range map[string]error{
		"refusal":       apierrors.NewForbidden(metal3.Resource("baremetalhosts"), hostile.Text, errors.New(hostile.Text)),
		"reason":        &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReason(hostile.Text), Message: hostile.Text}},
		"anything else": errors.New(strings.ReplaceAll(hostile.Text, "\n", " ")),
	} {
		for _, args := range [][]string{
			{}, {"why", "worker-0"}, {"history", "worker-0"}, {"wait", "worker-0", "--for", "provisioned"}, {"power", "off", "worker-0", "--yes"}, {"power", "on", "--all", "--yes"},
			{"watch", "--progress", "plain"}, {"candidates"}, {"ironics"}, {"create", "worker-1", "--bmc", "ipmi://192.0.2.1", "--credentials", "bmc"}, {"ui", "--no-browser"},
		} {
			c := newCluster(host("worker-0", metal3.StateAvailable))
			c.metal3.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
			c.dynamic.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
			if code := c.run(t, args...); code == 0 {
				t.Errorf("%s, %q: exit code 0", name, args)
			}
			if found := hostile.In(c.out + c.errOut); found != "" {
				t.Errorf("%s, %q: %s", name, args, found)
			}
		}
	}
}

// TestHostileWarning: so are warnings.
func TestHostileWarning(t *testing.T) {
	var errOut strings.Builder
	s := newSession(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &errOut, ErrOut: &errOut})
	s.warnings.HandleWarningHeader(299, "-", hostile.Text)
	if found := hostile.In(errOut.String()); found != "" || errOut.Len() == 0 {
		t.Errorf("%q: %s", errOut.String(), found)
	}
}
