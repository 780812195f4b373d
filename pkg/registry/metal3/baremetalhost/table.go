// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/failure"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/kind"
)

// columns are those of `kubectl get baremetalhosts`. Columns with priority 1 appear with -o wide.
var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the host."},
	{Name: "Status", Type: "string", Description: "Operational status: OK, error, and others."},
	{Name: "Provisioning Status", Type: "string", Description: "Provisioning state of the host."},
	{Name: "Consumer", Type: "string", Description: "What uses the host."},
	{Name: "BMC", Type: "string", Description: "Address of the BMC."},
	{Name: "Hardware Profile", Type: "string", Description: "Name of the hardware profile."},
	{Name: "Online", Type: "string", Description: "Whether the host is to be powered on."},
	{Name: "Error", Type: "string", Description: "What is wrong with the host, in one sentence; status.errorMessage says more."},
	{Name: "Age", Type: "date", Description: "Time since the host was created."},
	{Name: "Powered On", Type: "string", Priority: 1, Description: "Whether the host is powered on, as far as Ironic knows."},
	{Name: "Ironic State", Type: "string", Priority: 1, Description: "Provision state of the node in Ironic, and where it is going."},
	{Name: "Progress", Type: "string", Priority: 1, Description: "What Ironic is doing, the number of the step and how many there are, and the step."},
	{Name: "Node UUID", Type: "string", Priority: 1, Description: "UUID of the node in Ironic."},
	{Name: "Boot MAC", Type: "string", Priority: 1, Description: "MAC address that the host boots from."},
	{Name: "Ironic", Type: "string", Priority: 1, Description: "IronicInstance whose Ironic has the node. Empty if that is the Ironic of the server's flags."},
}

// tableConvertor converts hosts to the tables that kubectl prints.
type tableConvertor struct{}

func (tableConvertor) ConvertToTable(_ context.Context, obj runtime.Object, options runtime.Object) (*metav1.Table, error) {
	return kind.Table(obj, options, columns, func(obj runtime.Object) ([]any, error) {
		host, ok := obj.(*metal3.BareMetalHost)
		if !ok {
			return nil, fmt.Errorf("not a BareMetalHost: %T", obj)
		}
		return cells(host), nil
	})
}

func cells(host *metal3.BareMetalHost) []any {
	consumer := ""
	if host.Spec.ConsumerRef != nil {
		consumer = host.Spec.ConsumerRef.Name
	}
	return []any{
		host.Name,
		string(host.Status.OperationalStatus),
		string(host.Status.Provisioning.State),
		consumer,
		host.Spec.BMC.Address,
		host.Status.HardwareProfile,
		strconv.FormatBool(host.Spec.Online),
		failure.First(host.Status.ErrorMessage),
		age(host.CreationTimestamp),
		strconv.FormatBool(host.Status.PoweredOn),
		ironicState(host.Status.Ironic),
		progress(host.Status.Ironic),
		host.Status.Provisioning.ID,
		host.Spec.BootMACAddress,
		ironicInstance(host.Status.Ironic),
	}
}

// age returns the present age, or an empty text for an object without a creation time, such as the
// bookmark of a watch.
func age(created metav1.Time) string {
	if created.IsZero() {
		return ""
	}
	return duration.HumanDuration(time.Since(created.Time))
}

func ironicInstance(s *metal3.IronicStatus) string {
	if s == nil {
		return ""
	}
	return s.Instance
}

func ironicState(s *metal3.IronicStatus) string {
	if s == nil {
		return ""
	}
	if s.TargetProvisionState != "" {
		return s.ProvisionState + " -> " + s.TargetProvisionState
	}
	return s.ProvisionState
}

// progress returns for example "clean 2/3 erase_devices".
func progress(s *metal3.IronicStatus) string {
	if s == nil || s.Operation == "" {
		return ""
	}
	words := []string{string(s.Operation)}
	if s.StepCount > 0 {
		words = append(words, fmt.Sprintf("%d/%d", s.StepIndex, s.StepCount))
	}
	// The first step of a deployment is called deploy.
	if step := s.Step[strings.IndexByte(s.Step, '.')+1:]; step != "" && step != string(s.Operation) {
		words = append(words, step)
	}
	return strings.Join(words, " ")
}
