// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/view"
)

func newTakeoverCommand(s *session) *cobra.Command {
	return newSimpleCommand(s, "takeover", "Confirm that machines are those of their hosts",
		`Confirms of hosts that are held that their nodes in Ironic are theirs, and run what their specs say (POST to the
subresource takeover). What is known of each, and what follows, is shown before. Hosts that are not held are left out.
If something else is deployed on a node by the time of a yes, its host remains held, unless the node could not be shown.`,
		`  kubectl bmh takeover worker-0
  kubectl bmh takeover --all --dry-run=server
  kubectl bmh takeover -l rack=7 --yes --wait`,
		action{
			past: "taken over", destroys: "confirms the nodes of", target: hosts.Settled, show: showHeld,
			do: func(ctx context.Context, client hostClient, host *metal3.BareMetalHost, options metav1.CreateOptions) (runtime.Object, string, error) {
				do := post(hostClient.Takeover, takeoverOf(host), func(answer *metal3.HostTakeover) string { return answer.Status.Message })
				return do(ctx, client, host, options)
			},
		})
}

// takeoverOf confirms the node and the deployment that the host was shown with.
func takeoverOf(host *metal3.BareMetalHost) *metal3.HostTakeover {
	request := &metal3.HostTakeover{Spec: metal3.HostTakeoverSpec{NodeUUID: host.Status.Provisioning.ID}}
	if node := host.Status.Ironic; node != nil && node.Unproven == "" {
		request.Spec.InstanceUUID = &host.Status.Ironic.InstanceUUID
	}
	return request
}

// showHeld says why a host is held, what Ironic says of its node, and what follows if that is confirmed. The text is empty for
// hosts that are not held, and where all hosts are, until an administrator ends that; why says which.
func showHeld(host *metal3.BareMetalHost) (text, why string) {
	held := hosts.Condition(host, metal3.HeldCondition)
	switch {
	case held == nil || held.Status != metav1.ConditionTrue:
		return "", "it is not held"
	case held.Reason == metal3.RestoredReason || held.Reason == metal3.OperatorRunningReason:
		return "", "it is held as all hosts are, for " + held.Reason + ", which nobody can confirm host by host: " + held.Message
	}
	lines := []string{host.Name, "  held: " + held.Reason + ": " + held.Message}
	if node := host.Status.Ironic; isUnproven(host) {
		lines = append(lines, "  node: "+node.NodeUUID+", of which nothing else is shown before a person has confirmed it: look at it in Ironic")
	} else if node != nil {
		lines = append(lines, fmt.Sprintf("  node: %s", strings.Join(nonEmpty(
			node.NodeUUID, node.NodeName, node.ProvisionState, node.PowerState, labelled("instance", node.InstanceUUID), labelled("BMC", node.BMC),
			labelled("marked by host", node.MarkedHost), labelled("of cluster", node.MarkedCluster)), ", ")))
	}
	lines = append(lines, "  then: "+afterTakeover(host))
	for i, line := range lines {
		lines[i] = view.Clean(line)
	}
	return strings.Join(lines, "\n"), ""
}

// isUnproven reports whether the server does not show the node of the host, because it may not be the host's.
func isUnproven(host *metal3.BareMetalHost) bool {
	return host.Status.Ironic != nil && host.Status.Ironic.Unproven != ""
}

func labelled(label, value string) string {
	if value == "" {
		return ""
	}
	return label + " " + value
}

func nonEmpty(texts ...string) []string {
	var result []string
	for _, t := range texts {
		if t != "" {
			result = append(result, t)
		}
	}
	return result
}

// afterTakeover says what the server does once the node is the host's: TakeOver in pkg/ironicsync/lifecycle, and the steps after it.
func afterTakeover(host *metal3.BareMetalHost) string {
	node, saved := host.Status.Ironic, &host.Status.Provisioning
	runs := isRunning(host)
	wants := host.Spec.Image != nil && host.Spec.Image.URL != "" || host.Spec.CustomDeploy != nil && host.Spec.CustomDeploy.Method != ""
	// What nobody has named, and has no instance_uuid that could be confirmed, is not undeployed.
	isNamed := saved.Image.URL != "" || saved.CustomDeploy != nil && saved.CustomDeploy.Method != "" || node != nil && node.InstanceUUID != ""
	undeploying := host.Status.OperationHistory.Deprovision
	power := powerAfterTakeover(host)
	switch held := host.Status.Record.Hold; {
	case held != nil && held.Other != "":
		return "its machine counts as another one than that of the other host, for good, and it goes on as its spec says"
	case !host.DeletionTimestamp.IsZero():
		return "its deletion goes on: WHAT THE MACHINE RUNS IS UNDEPLOYED, and its disks are cleaned unless that is switched off"
	case saved.State == metal3.StateDeprovisioning && !undeploying.Start.IsZero() && undeploying.End.IsZero() && !(wants && runs && node.ProvisionState == string(ironic.Active)):
		return "its deprovisioning goes on: WHAT THE MACHINE RUNS IS UNDEPLOYED, and its disks are cleaned unless that is switched off"
	case host.Spec.ExternallyProvisioned && (saved.State != metal3.StateProvisioned || metal3.MayBeExternallyProvisioned(&host.Status)):
		return "it goes on as externally provisioned" + power
	case isUnproven(host) && wants:
		return "if something is deployed on the node, it counts as provisioned with the image of its spec; otherwise THE IMAGE OF ITS SPEC IS WRITTEN to the machine" + power
	case isUnproven(host):
		return "it has no image in its spec: WHAT IS DEPLOYED ON THE NODE, if anything, IS UNDEPLOYED, and its disks are cleaned unless that is switched off"
	case runs && wants:
		return "it counts as provisioned with the image of its spec" + power
	case saved.State.RunsSomething() && wants:
		return "it counts as provisioned with the image of its spec, and its node is adopted" + power
	case (runs || saved.State.RunsSomething()) && isNamed:
		return "it has no image in its spec: WHAT THE MACHINE RUNS IS UNDEPLOYED, and its disks are cleaned unless that is switched off"
	case wants:
		return "THE IMAGE OF ITS SPEC IS WRITTEN to the machine"
	}
	return "it goes on as its spec says" + power
}

// isRunning reports whether something is deployed on the node, as far as it is shown.
func isRunning(host *metal3.BareMetalHost) bool {
	return host.Status.Ironic != nil && ironic.ProvisionState(host.Status.Ironic.ProvisionState).IsDeployed()
}

// powerAfterTakeover says what becomes of the power of a machine that runs something. One that the server finds on stays on although
// spec.online is false, because that may only mean that the field was left out, unless spec.online has counted for what is deployed
// already; the server's deploymentFound decides so.
func powerAfterTakeover(host *metal3.BareMetalHost) string {
	node, known := host.Status.Ironic, host.Status.Record.Deployment
	isOff := node != nil && node.PowerState == string(ironic.PowerOff)
	counts := known != nil && !known.KeepPower
	if counts && isRunning(host) {
		counts = known.NodeUUID == node.NodeUUID && known.InstanceUUID == node.InstanceUUID
	}
	if node != nil && !isUnproven(host) && !isRunning(host) && !host.Status.Provisioning.State.RunsSomething() && !host.Spec.ExternallyProvisioned {
		counts = true // it runs nothing that anybody has found
	}
	switch {
	case host.Spec.Online && isOff:
		return ", and is switched on, as spec.online says"
	case host.Spec.Online, isOff:
		return ""
	case counts && isUnproven(host):
		return ", and may be switched off, as spec.online says"
	case counts:
		return ", and is switched off, as spec.online says"
	}
	return ", and if it is on, it stays on until spec.online changes"
}
