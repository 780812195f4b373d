// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/informers/externalversions"
)

const dataPath = groupPath + "/namespaces/metal3/hardwaredata"

const dataJSON = `{"apiVersion":"metal3.io/v1alpha1","kind":"HardwareData","metadata":{"name":"NAME"},
	"spec":{"hardware":{"hostname":"a","ramMebibytes":4096,"nics":[{"name":"eth0","mac":"52:54:00:8b:0d:5b"}]}}}`

func (s *server) createData(t *testing.T, name string) *metal3.HardwareData {
	t.Helper()
	data := &metal3.HardwareData{}
	s.do(t, "POST", dataPath, strings.ReplaceAll(dataJSON, "NAME", name)).into(t, 201, data)
	return data
}

// TestHardwareData is representative of all kinds that pkg/registry/metal3/kind serves.
func TestHardwareData(t *testing.T) {
	for name, cache := range map[string]bool{"watch cache off": false, "watch cache on": true} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, cache)
			t.Run("write", func(t *testing.T) { testDataWrites(t, s) })
			t.Run("apply", func(t *testing.T) { testDataApply(t, s) })
			t.Run("table", func(t *testing.T) { testDataTable(t, s) })
			t.Run("watch", func(t *testing.T) { testDataWatch(t, s) })
			t.Run("informer", func(t *testing.T) { testDataInformer(t, s) })
			t.Run("records", func(t *testing.T) { testDataRecords(t, s) })
		})
	}
}

func testDataWrites(t *testing.T, s *server) {
	created := s.createData(t, "worker-0")
	if created.UID == "" || created.Generation != 1 || created.Spec.HardwareDetails.RAMMebibytes != 4096 {
		t.Errorf("created %+v", created)
	}
	withVersion := func(version string) string {
		data := created.DeepCopy()
		data.ResourceVersion = version
		data.Spec.HardwareDetails.Hostname = "b"
		body, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	tests := []struct {
		name, method, path, body, header string
		code                             int
		says                             string
	}{
		{"exists", "POST", "", strings.ReplaceAll(dataJSON, "NAME", "worker-0"), "", 409, "already exists"},
		{"unknown field", "POST", "?fieldValidation=Strict", strings.Replace(dataJSON, "hostname", "hostnam", 1), "", 400, `unknown field \"spec.hardware.hostnam\"`},
		{"not a MAC address", "PATCH", "/worker-0", `{"spec":{"hardware":{"nics":[{"mac":"eth0"}]}}}`, mergePatch, 422, "spec.hardware.nics[0].mac"},
		{"dry run", "PATCH", "/worker-0?dryRun=All", `{"spec":{"hardware":{"hostname":"never"}}}`, mergePatch, 200, "never"},
		{"labels", "PATCH", "/worker-0", `{"metadata":{"labels":{"rack":"1"}}}`, mergePatch, 200, `"generation":1`},
		{"old resourceVersion", "PUT", "/worker-0", withVersion(created.ResourceVersion), "", 409, "modified"},
		{"no resourceVersion", "PUT", "/worker-0", withVersion(""), "", 422, "must be specified"},
		{"spec", "PATCH", "/worker-0", `[{"op":"replace","path":"/spec/hardware/hostname","value":"c"}]`, jsonPatch, 200, `"generation":2`},
		{"get", "GET", "/worker-0", "", "", 200, `"hostname":"c"`},
		{"list", "GET", "?labelSelector=rack%3D1&fieldSelector=metadata.name%3Dworker-0", "", "", 200, `"HardwareDataList"`},
		{"list by another field", "GET", "?fieldSelector=spec.hardware.hostname%3Dc", "", "", 400, "metadata.name"},
		{"no status", "GET", "/worker-0/status", "", "", 404, ""},
		{"delete", "DELETE", "/worker-0", "", "", 200, ""},
		{"get after delete", "GET", "/worker-0", "", "", 404, "worker-0"},
		{"delete all", "DELETE", "", "", "", 200, ""},
	}
	for _, test := range tests {
		got := s.do(t, test.method, dataPath+test.path, test.body, test.header)
		if got.code != test.code || !strings.Contains(string(got.body), test.says) {
			t.Errorf("%s: HTTP %d, want %d: %s", test.name, got.code, test.code, got.body)
		}
	}
}

func testDataApply(t *testing.T, s *server) {
	apply := func(manager, hardware string) answer {
		body := `{"apiVersion":"metal3.io/v1alpha1","kind":"HardwareData","metadata":{"name":"applied"},"spec":{"hardware":{` + hardware + `}}}`
		return s.do(t, "PATCH", dataPath+"/applied?fieldManager="+manager, body, applyPatch)
	}
	var data metal3.HardwareData
	apply("one", `"hostname":"a"`).into(t, 201, &data)
	apply("two", `"ramMebibytes":1`).into(t, 200, &data)
	if hardware := data.Spec.HardwareDetails; hardware.Hostname != "a" || hardware.RAMMebibytes != 1 {
		t.Errorf("hardware is %+v", hardware)
	}
	if got := apply("two", `"hostname":"b"`); got.code != 409 || !strings.Contains(got.status(t).Message, `"one"`) {
		t.Errorf("a conflict: HTTP %d: %s", got.code, got.body)
	}
}

func testDataTable(t *testing.T, s *server) {
	s.createData(t, "printed")
	var table metav1.Table
	s.do(t, "GET", dataPath+"?fieldSelector=metadata.name%3Dprinted", "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io").into(t, 200, &table)
	var columns []string
	for _, c := range table.ColumnDefinitions {
		columns = append(columns, c.Name)
	}
	if !slices.Equal(columns, []string{"Name", "Age"}) || len(table.Rows) != 1 {
		t.Fatalf("columns %v, rows %v", columns, table.Rows)
	}
	if cells := table.Rows[0].Cells; cells[0] != "printed" || !strings.HasSuffix(cells[1].(string), "s") {
		t.Errorf("cells are %v", cells)
	}
}

// testDataWatch uses the generated client, as other controllers do. Without a resourceVersion, a watch may begin with a later state.
func testDataWatch(t *testing.T, s *server) {
	client := s.clientset().Metal3V1alpha1().HardwareData(namespace)
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := client.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=watched", ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	s.createData(t, "watched")
	data, err := client.Get(t.Context(), "watched", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data.Spec.HardwareDetails.Hostname = "b"
	if _, err := client.Update(t.Context(), data, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.Delete(t.Context(), "watched", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		kind     watch.EventType
		hostname string
	}{{watch.Added, "a"}, {watch.Modified, "b"}, {watch.Deleted, "b"}} {
		select {
		case event := <-w.ResultChan():
			got, ok := event.Object.(*metal3.HardwareData)
			if !ok || event.Type != want.kind || got.Name != "watched" || got.Spec.HardwareDetails.Hostname != want.hostname {
				t.Errorf("got %s %+v, want %s", event.Type, event.Object, want.kind)
			}
		case <-t.Context().Done():
			t.Fatal("no event")
		}
	}
}

func testDataInformer(t *testing.T, s *server) {
	s.createData(t, "informed")
	factory := externalversions.NewSharedInformerFactory(s.clientset(), 0)
	generic, err := factory.ForResource(metal3.SchemeGroupVersion.WithResource("hardwaredata"))
	if err != nil {
		t.Fatal(err)
	}
	informer := generic.Informer()
	ctx, stop := context.WithCancel(t.Context())
	defer factory.Shutdown()
	defer stop()
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer does not sync")
	}
	if _, err := factory.Metal3().V1alpha1().HardwareData().Lister().HardwareData(namespace).Get("informed"); err != nil {
		t.Error(err)
	}
}

// testDataRecords checks that clients read what the controller records, and vice versa.
func testDataRecords(t *testing.T, s *server) {
	created := s.createData(t, "both-ways")
	recorded, err := s.data.Get(t.Context(), namespace, "both-ways")
	if err != nil || recorded.UID != created.UID {
		t.Fatalf("recorded is %+v, %v", recorded, err)
	}
	recorded.Spec.HardwareDetails.Hostname = "b"
	if err := s.data.Put(t.Context(), recorded); err != nil {
		t.Fatal(err)
	}
	var read metal3.HardwareData
	s.do(t, "GET", dataPath+"/both-ways", "").into(t, 200, &read)
	if read.Spec.HardwareDetails.Hostname != "b" || read.Generation != 2 {
		t.Errorf("read is %+v", read)
	}
}
