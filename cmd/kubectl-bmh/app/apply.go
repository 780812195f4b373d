// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/printers"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/inventory"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/view"
)

// The resources that are applied.
var (
	hostResource   = metal3.SchemeGroupVersion.WithResource("baremetalhosts")
	secretResource = corev1.SchemeGroupVersion.WithResource("secrets")
)

// apply applies or prints objects, and returns of how many hosts that went well. The others were
// reported.
func (c *createCommand) apply(ctx context.Context, objects []inventory.Objects) (made int, err error) {
	print, err := c.objectPrinter()
	if err != nil {
		return 0, err
	}
	var clients *clients
	if c.dryRun != dryRunClient {
		if clients, _, err = c.connect(); err != nil {
			return 0, err
		}
	}
	err = inOrder(objects, atOnce, func(o inventory.Objects) ([]*unstructured.Unstructured, error) {
		return c.applyOne(ctx, clients, o)
	}, func(o inventory.Objects, applied []*unstructured.Unstructured, err error) error {
		for _, object := range applied {
			if err := print(object); err != nil {
				return err
			}
		}
		if err != nil {
			mistake := inventory.LineError{Line: o.Entry.Line, Name: o.Entry.Name, Err: errors.New(describe(err))}
			fmt.Fprintln(c.ErrOut, view.Clean(mistake.Error()))
			return nil
		}
		made++
		return nil
	})
	if ctx.Err() != nil {
		return made, ctx.Err()
	}
	return made, err
}

// applyOne applies the Secrets and the host of a machine, and returns what was applied. The Secrets
// come first, so that the host does not report that they are missing.
func (c *createCommand) applyOne(ctx context.Context, clients *clients, o inventory.Objects) (applied []*unstructured.Unstructured, err error) {
	host, err := toApply(o.Host)
	if err != nil {
		return nil, err
	}
	if c.dryRun != dryRunClient {
		if err := c.fitExisting(ctx, clients, o, host); err != nil {
			return nil, err
		}
	}
	for _, secret := range o.Secrets {
		u, err := toApply(secret)
		if err != nil {
			return applied, err
		}
		if u, err = c.applyObject(ctx, clients, secretResource, u, c.dryRun); err != nil {
			return applied, err
		}
		applied = append(applied, u)
	}
	if host, err = c.applyObject(ctx, clients, hostResource, host, c.dryRun); err != nil {
		return applied, err
	}
	return append(applied, host), nil
}

// applyObject applies an object, or does what a dry run asks for, and returns the object as it is then.
func (c *createCommand) applyObject(ctx context.Context, clients *clients, resource schema.GroupVersionResource, u *unstructured.Unstructured, dryRun string) (*unstructured.Unstructured, error) {
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: c.conflicts}
	switch dryRun {
	case dryRunClient:
		return u, nil
	case dryRunServer:
		options.DryRun = []string{metav1.DryRunAll}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return clients.dynamic.Resource(resource).Namespace(u.GetNamespace()).Apply(ctx, u.GetName(), u, options)
}

// toApply returns an object without what is not for users to set.
func toApply(object runtime.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	return &unstructured.Unstructured{Object: content}, nil
}

// objectPrinter returns what prints objects: as lines, or as -o asks for.
func (c *createCommand) objectPrinter() (func(*unstructured.Unstructured) error, error) {
	var printer printers.ResourcePrinter
	if *c.print.OutputFormat != "" {
		var err error
		if printer, err = c.print.ToPrinter(); err != nil {
			return nil, err
		}
	}
	return func(u *unstructured.Unstructured) error {
		if printer != nil {
			return printer.PrintObj(u, c.objects(*c.print.OutputFormat))
		}
		kind := "secret"
		if u.GetKind() != "Secret" {
			kind = "baremetalhost.metal3.io"
		}
		word := "serverside-applied"
		switch c.dryRun {
		case dryRunClient:
			word = "created (dry run)"
		case dryRunServer:
			word += " (server dry run)"
		}
		_, err := fmt.Fprintf(c.Out, "%s/%s %s\n", kind, view.Clean(u.GetName()), word)
		return err
	}, nil
}

// fitExisting has a host that exists keep what the inventory does not give, and has the server check the result before the
// Secrets of the host are changed: a password that a refused host leaves behind would be given to the BMC.
func (c *createCommand) fitExisting(ctx context.Context, clients *clients, o inventory.Objects, host *unstructured.Unstructured) error {
	existing, err := clients.getHost(ctx, host.GetNamespace(), host.GetName())
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil: // Forbidden, too: whether the host is to stay off, or has an image, is not known
		return err
	case c.isNew && existing.Spec.BMC.Address != o.Host.Spec.BMC.Address:
		return fmt.Errorf("there is a host %s already, with the address %s: choose another name with --name", existing.Name, existing.Spec.BMC.Address)
	}
	if err := keep(existing, host, o.Entry.Given); err != nil {
		return err
	}
	if len(o.Secrets) == 0 || c.dryRun == dryRunServer {
		return nil
	}
	_, err = c.applyObject(ctx, clients, hostResource, host.DeepCopy(), dryRunServer)
	return err
}

// keep adds to what is applied as a host what was applied before and is not given now. Server-side apply removes it
// otherwise: without its image, a host is deprovisioned. The power stays as it is to be whoever has set it: whoever has
// switched off a machine to work on it must not be surprised by an inventory that is applied again.
func keep(existing *metal3.BareMetalHost, host *unstructured.Unstructured, given sets.Set[string]) error {
	has, err := toApply(existing)
	if err != nil {
		return err
	}
	applied, err := appliedFields(existing.ManagedFields)
	if err != nil {
		return err
	}
	for _, path := range [][]string{{"metadata", "labels"}, {"metadata", "annotations"}, {"spec"}, {"spec", "bmc"}} {
		fields := applied
		for _, name := range path {
			fields, _ = fields["f:"+name].(map[string]any)
		}
		was, _, _ := unstructured.NestedMap(has.Object, path...)
		for name, value := range was {
			_, isApplied := fields["f:"+name]
			_, isSet, _ := unstructured.NestedFieldNoCopy(host.Object, append(path, name)...)
			if !isApplied || isSet || path[0] == "spec" && given.Has(name) {
				continue
			}
			if err := unstructured.SetNestedField(host.Object, value, append(path, name)...); err != nil {
				return err
			}
		}
	}
	if !given.Has("online") {
		return unstructured.SetNestedField(host.Object, existing.Spec.Online, "spec", "online")
	}
	return nil
}

// appliedFields returns the fields that this program has applied, in the form of managedFields.
func appliedFields(managed []metav1.ManagedFieldsEntry) (fields map[string]any, err error) {
	for _, entry := range managed {
		if entry.Manager == fieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" && entry.FieldsV1 != nil {
			err = json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields)
		}
	}
	return fields, err
}
