// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// pausedForMove is the value of the annotation with which hosts are paused. Another value is somebody else's.
const pausedForMove = "metal3-apiserver.metal3.io/move"

func newPauseCommand(s *session) *cobra.Command {
	return newSimpleCommand(s, "pause", "Pause hosts for a move to another cluster",
		`Pauses hosts, so that clusterctl can move them to another cluster with another Ironic. Those whose machines run
something get the annotation `+metal3.StatusAnnotation+`, with which the other cluster adopts them instead of
provisioning them. Hosts of a Metal3Machine are left to Cluster API Provider Metal3, which does the same. Hosts at which
something is being done are refused, and those that are held: the other cluster would not know of that.

After the move, or instead of it, run kubectl bmh unpause.`,
		`  kubectl bmh pause --all -n metal3
  clusterctl move -n metal3 --to-kubeconfig=other.kubeconfig
  kubectl bmh unpause --all -n metal3 --kubeconfig=other.kubeconfig`,
		action{past: "ready to be moved", do: annotateHost(pausing)})
}

func newUnpauseCommand(s *session) *cobra.Command {
	return newSimpleCommand(s, "unpause", "Let hosts go on that were paused for a move",
		`Lets hosts go on that kubectl bmh pause has paused, where they are now. A pause of others stays.`,
		`  kubectl bmh unpause --all -n metal3`,
		action{past: "released", do: annotateHost(unpausing)})
}

// annotateHost returns what changes the annotations of a host. decide returns those to be changed, of which null removes one, and
// says what that means. The status that it sees is the one that is recorded in that moment.
func annotateHost(decide func(host *metal3.BareMetalHost) (annotations map[string]any, message string, err error)) doFunc {
	return func(ctx context.Context, client hostClient, host *metal3.BareMetalHost, options metav1.CreateOptions) (answer runtime.Object, message string, err error) {
		err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			is, err := client.Get(ctx, host.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			answer = is
			annotations, said, err := decide(is)
			message = said
			if err != nil || len(annotations) == 0 {
				return err
			}
			patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
				"uid": is.UID, "resourceVersion": is.ResourceVersion, "annotations": annotations,
			}})
			if err != nil {
				return err
			}
			answer, err = client.Patch(ctx, host.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: options.FieldManager, DryRun: options.DryRun})
			return err
		})
		return answer, message, err
	}
}

// pausing returns the annotations with which a host can be moved.
func pausing(host *metal3.BareMetalHost) (annotations map[string]any, message string, err error) {
	if ref := host.Spec.ConsumerRef; ref != nil && ref.Kind == "Metal3Machine" {
		return nil, "left to Cluster API Provider Metal3, which pauses it", nil
	}
	state := host.Status.Provisioning.State
	switch state {
	case metal3.StateNone, metal3.StateUnmanaged, metal3.StateRegistering, metal3.StateReady, metal3.StateAvailable,
		metal3.StateProvisioned, metal3.StateExternallyProvisioned:
	default:
		return nil, "", fmt.Errorf("the host is %s: pause it when that has ended", state)
	}
	if err := underWay(host); err != nil {
		return nil, "", err
	}
	// Neither the status that is moved nor another Ironic has what contradicts the host: there, the machine would be adopted, and wiped
	// once the host is deleted, although somebody else may use it.
	if held := hosts.Condition(host, metal3.HeldCondition); held != nil && held.Status == metav1.ConditionTrue {
		return nil, "", fmt.Errorf("the host is held for %s, of which the other cluster would not know: solve that first. %s", held.Reason, held.Message)
	}
	annotations, message = map[string]any{}, "paused"
	if by, paused := host.Annotations[metal3.PausedAnnotation]; !paused {
		annotations[metal3.PausedAnnotation] = pausedForMove
	} else if by != pausedForMove {
		message = "paused already, by others"
	}
	if state.RunsSomething() {
		// Again for a host that is paused: its status may have changed since.
		if annotations[metal3.StatusAnnotation], err = movedStatus(&host.Status); err != nil {
			return nil, "", err
		}
		message += ", with its status"
	}
	return annotations, message, nil
}

// underWay returns what is being done at a host although its provisioning state does not show it; nil if nothing is. The other cluster
// would not know of it: there, the machine would be adopted while the first Ironic is still at it. What is being registered runs nothing
// that Ironic could interrupt, and can be moved.
func underWay(host *metal3.BareMetalHost) error {
	record := &host.Status.Record
	switch {
	case host.DeletionTimestamp != nil:
		return errors.New("the host is being deleted, which would not go with it: wait until it is gone")
	case record.Transfer != nil:
		return fmt.Errorf("the host is being moved to %s: wait until it is there, or move it back with kubectl bmh transfer", ironic.DescribeInstance(record.Transfer.To))
	case host.IsDetached():
		return nil // Ironic has no node of it
	case record.Asked != nil:
		return fmt.Errorf("Ironic may still carry out a request (%s): wait until status.record.asked is gone, some minutes at most", record.Asked.Target)
	case record.AskedPower != nil:
		return fmt.Errorf("Ironic may still carry out a request (%s): wait until status.record.askedPower is gone, some minutes at most", record.AskedPower.Target)
	case len(record.PowerOns) > 0:
		return errors.New("Ironic may still carry out a request to switch the machine on: wait until status.record.powerOns is gone, some minutes at most")
	case record.PowerCut != nil:
		return errors.New("its power is being cut: wait until it is off")
	case hosts.IsServiced(host):
		return fmt.Errorf("its settings are being changed: wait for that with kubectl bmh wait %s --for idle", host.Name)
	case host.Status.Provisioning.State != metal3.StateRegistering && hosts.IsBusy(host):
		return fmt.Errorf("Ironic has lost its node, or has yet to adopt its machine: wait for that with kubectl bmh wait %s --for idle", host.Name)
	}
	return nil
}

// movedStatus returns a status as Cluster API Provider Metal3 annotates it: without the hardware, which the HardwareData has, and
// what belongs to this cluster.
func movedStatus(status *metal3.BareMetalHostStatus) (string, error) {
	text, err := json.Marshal(status)
	if err != nil {
		return "", err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return "", err
	}
	for _, name := range []string{"hardware", "record", "ironic", "conditions"} {
		delete(fields, name)
	}
	text, err = json.Marshal(fields)
	return string(text), err
}

// unpausing returns the annotations with which a host goes on. Its status stays, until the server has restored it: without it, the
// machine would be provisioned.
func unpausing(host *metal3.BareMetalHost) (annotations map[string]any, message string, err error) {
	switch by, paused := host.Annotations[metal3.PausedAnnotation]; {
	case !paused:
		return nil, "it was not paused", nil
	case by != pausedForMove:
		return nil, fmt.Sprintf("others have paused it (%q), and may let it go on", by), nil
	}
	return map[string]any{metal3.PausedAnnotation: nil}, "", nil
}
