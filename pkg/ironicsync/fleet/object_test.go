// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

func (b *bench) object(_ context.Context, namespace, name string) (*unstructured.Unstructured, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.objectErr != nil {
		return nil, b.objectErr
	}
	if object := b.objects[namespace+"/"+name]; object != nil {
		return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(object)}, nil
	}
	return nil, apierrors.NewNotFound(IronicObjects.GroupResource(), name)
}

// setObject writes the Ironic object "ironic" of a namespace. The operator writes the name of the Secret when it has created that.
func (b *bench) setObject(namespace, secret, certificate, ready string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objects[namespace+"/ironic"] = map[string]any{
		"apiVersion": "ironic.metal3.io/v1alpha1", "kind": "Ironic",
		"metadata": map[string]any{"namespace": namespace, "name": "ironic", "resourceVersion": "7"},
		"spec": map[string]any{
			"apiCredentialsName": secret, "tls": map[string]any{"certificateName": certificate},
			"networking": map[string]any{"apiPort": int64(6385)}, "version": "34.0",
		},
		"status": map[string]any{"installedVersion": "34.0", "conditions": []any{map[string]any{
			"type": "Ready", "status": ready, "reason": "DeploymentInProgress", "message": "of the operator", "lastTransitionTime": "2026-11-01T00:00:00Z",
		}}},
	}
}

func (b *bench) setObjectErr(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objectErr = err
}

// setOperatorSecret writes a Secret that the operator uses.
func (b *bench) setOperatorSecret(name, password string) {
	b.setSecret(name, password, nil)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.labels[name] = map[string]string{operatorLabel: "true"}
}

func ofObject(namespace string) func(*api.IronicInstanceSpec) {
	return func(spec *api.IronicInstanceSpec) {
		spec.Endpoint, spec.IronicRef = "", &api.IronicReference{Namespace: namespace, Name: "ironic"}
	}
}

func (b *bench) ready(name string) string {
	if c := b.Describe(name).IronicReady; c != nil {
		return string(c.Status) + " " + c.Reason + ": " + c.Message
	}
	return ""
}

// TestIronicObject: an instance comes with its Ironic object and that object's Secret, follows both, and goes with them; it stays as
// long as nobody knows that they are gone.
func TestIronicObject(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		const service = "ironic.metal3-system.svc"
		b.wires.to[service] = enginetest.NewIronic(t, ironicsim.Options{})
		b.instances.put(instance("b", ofObject("")))
		b.follow()
		if got := b.reason("b"); got != api.IronicNotFoundReason || b.ready("b") != "" {
			t.Fatalf("without its object: %q, %q", got, b.ready("b"))
		}
		b.setObject("metal3-system", "", "", "False")
		b.settle()
		if got := b.reason("b"); got != api.IronicNotReadyReason || !strings.HasPrefix(b.ready("b"), "False DeploymentInProgress: ") {
			t.Fatalf("before the operator has made a Secret: %q, %q", got, b.ready("b"))
		}
		b.setObject("metal3-system", "ironic-service-x", "", "False")
		b.settle()
		if got := b.reason("b"); got != api.SecretNotFoundReason {
			t.Fatalf("without the Secret: %q", got)
		}
		b.setSecret("ironic-service-x", "one", nil)
		b.settle()
		if got := b.reason("b"); got != api.SecretInvalidReason {
			t.Fatalf("a Secret that is not meant for the operator: %q", got)
		}
		b.setOperatorSecret("ironic-service-x", "one")
		b.settle()
		first := b.member("b")
		if _, err := first.Client.Features(t.Context()); err != nil || b.wires.count(service) == 0 {
			t.Errorf("its Service is not asked: %v", err)
		}
		if got := b.Describe("b").Endpoint; got != "http://"+service {
			t.Errorf("the endpoint is %q", got)
		}

		b.setObject("metal3-system", "ironic-service-x", "", "True")
		b.settle()
		if got := b.ready("b"); !strings.HasPrefix(got, "True ") || !strings.HasSuffix(got, "of the operator") {
			t.Errorf("the object is ready: %q", got)
		}
		b.setObjectErr(errors.New("etcd is away"))
		b.settle()
		if b.member("b") != first {
			t.Error("another Member because the object is ready, or cannot be read")
		}
		b.setObjectErr(nil)
		b.setOperatorSecret("ironic-service-y", "two")
		b.setObject("metal3-system", "ironic-service-y", "", "True")
		b.settle()
		if b.member("b").Client == first.Client {
			t.Error("the client is the one with the former Secret")
		}
		b.mu.Lock()
		clear(b.objects)
		b.mu.Unlock()
		b.settle()
		if got := b.reason("b"); got != api.IronicNotFoundReason || b.ready("b") != "" {
			t.Errorf("the object is deleted: %q, %q", got, b.ready("b"))
		}
	})
}

// certificate returns a certificate in PEM.
func certificate(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{}, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestIronicObjectTLS: with a certificate, the Service speaks https, and the certificate's Secret says who signed it, unless the
// instance does.
func TestIronicObjectTLS(t *testing.T) {
	ca := certificate(t)
	for name, tt := range map[string]struct {
		secret map[string][]byte // nil if there is none
		bundle []byte
		want   []byte
		reason string
	}{
		"of an authority": {map[string][]byte{"ca.crt": ca, corev1.TLSCertKey: []byte("another")}, nil, ca, ""},
		"self-signed":     {map[string][]byte{corev1.TLSCertKey: ca}, nil, ca, ""},
		"caBundle":        {nil, ca, ca, ""},
		"no Secret":       {nil, nil, nil, api.SecretNotFoundReason},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, b *bench) {
				b.setOperatorSecret("room-b/api", "one")
				b.setObject("room-b", "api", "tls", "True")
				if tt.secret != nil {
					b.mu.Lock()
					b.secrets["room-b/tls"] = tt.secret
					b.mu.Unlock()
				}
				b.instances.put(instance("b", ofObject("room-b"), func(spec *api.IronicInstanceSpec) { spec.CABundle = tt.bundle }))
				b.follow()
				if got := b.reason("b"); got != tt.reason {
					t.Fatalf("the reason is %q", got)
				}
				if tt.reason != "" {
					return
				}
				if c := b.member("b").connection; c.endpoint != "https://ironic.room-b.svc" || !slices.Equal(c.ca, tt.want) {
					t.Errorf("connected to %s with %q", c.endpoint, c.ca)
				}
			})
		})
	}
}

// TestTwinsOfObject: the Service of an Ironic object, and its URL, are one Ironic.
func TestTwinsOfObject(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		b.setOperatorSecret("api", "one")
		b.setObject("metal3-system", "api", "", "True")
		b.instances.put(instance("a", at("http://ironic.metal3-system.svc:80/v1")))
		b.follow()
		b.instances.put(instance("b", ofObject("")))
		b.follow()
		if a, got := b.reason("a"), b.reason("b"); a != "" || got != api.SameEndpointReason {
			t.Errorf("the reasons are %q and %q", a, got)
		}
	})
}

// TestReadiness: what an Ironic object without conditions says.
func TestReadiness(t *testing.T) {
	object := &ironicObject{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ironic"}}
	if c := object.readiness(); c.Type != api.IronicInstanceIronicReady || c.Status != metav1.ConditionUnknown || c.Reason == "" {
		t.Errorf("without a condition: %+v", c)
	}
}
